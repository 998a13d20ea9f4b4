"""A ledger of effects: a process that nobody kills appends a line for every effect that another process had.

    python -m tests.benchmarks.ledger SOCKET FILE

serves one ledger until its input ends. It appends what it gets before it answers, so the file says what really was executed, and in
which order, whatever became of the process that did it. The standard library only: the peers use the client in their environment.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Reporter:
    """The side of whoever has effects."""

    def __init__(self, path: str | Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(str(path))

    def report(self, step: int) -> None:
        """Have the effect of this step; returns when it is in the ledger."""
        self._socket.sendall(f"{step}\n".encode())
        if self._socket.recv(1) != b".":
            raise ConnectionError("the ledger did not answer")


@dataclass(frozen=True)
class Ledger:
    """An open ledger: where to report, and what was."""

    socket: Path
    file: Path

    @property
    def size(self) -> int:
        """Bytes so far; grows with every effect."""
        return self.file.stat().st_size

    def executions(self) -> list[int]:
        """The steps in the order of their executions."""
        return [int(line) for line in self.file.read_text().split()]


@contextmanager
def open_ledger(root: Path) -> Iterator[Ledger]:
    """A ledger in `root`, served by a process of its own."""
    root.mkdir(parents=True)
    ledger = Ledger(root / "s", root / "ledger")
    argv = [sys.executable, "-m", "tests.benchmarks.ledger", str(ledger.socket), str(ledger.file)]
    with subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        if process.stdout.readline() != b"ready\n":
            raise ConnectionError("the ledger did not start")
        try:
            yield ledger
        finally:
            process.kill()


@dataclass(frozen=True)
class Repeats:
    """Executions beyond the first of a step: of steps that the program had gone on from, and of those that it was killed in."""

    completed: int
    interrupted: int


def repeats(executions: Sequence[int]) -> Repeats:
    """Of a program that does its steps one after the other.

    A step counts as completed once a later one was executed: the program had its result. The last one of all may have been
    completed or not; nobody outside can tell, and doing it again is counted as `interrupted`.
    """
    furthest, completed, interrupted = -1, 0, 0
    for step in executions:
        completed += step < furthest
        interrupted += step == furthest
        furthest = max(furthest, step)
    return Repeats(completed, interrupted)


def _serve(path: str, file: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server, Path(file).open("ab", buffering=0) as ledger:
        server.bind(path)
        server.listen()
        print("ready", flush=True)
        while True:
            connection, _ = server.accept()
            with connection:
                _note(connection, ledger.write)


def _note(connection: socket.socket, write: Callable[[bytes], object]) -> None:
    """Append what one process reports, until it is gone (one that is killed before it read its answer leaves a reset)."""
    with suppress(ConnectionError):
        while data := connection.recv(64):
            write(data)
            connection.sendall(b".")


if __name__ == "__main__":
    _serve(sys.argv[1], sys.argv[2])
