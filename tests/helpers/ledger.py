"""The effect ledger: a process of its own that notes every real execution, so that nobody who is killed can forget one.

    with Ledger() as ledger:
        report(ledger.address, Execution(...))     # comes back when the line is on disk
        ledger.executions()

It survives whoever reports to it, takes one report at a time, and knows nothing of runs.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from engine.run.calls import CallKey

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 60


@dataclass(frozen=True)
class Execution:
    """One real execution of a call: by which process, for which generation of which run."""

    run: str
    key: CallKey
    idempotency_key: str
    generation: int
    pid: int


class Ledger:
    """Starts the process, and reads what it wrote."""

    def __init__(self) -> None:
        # a unix address holds 107 bytes, which a directory of the test runner may already fill
        self._folder = tempfile.TemporaryDirectory(prefix="cl-", dir="/tmp")
        self.address = f"{self._folder.name}/socket"
        self._file = Path(self._folder.name) / "ledger.jsonl"
        self._file.touch()

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tests.helpers.ledger", self.address, str(self._file)]
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()

    def executions(self, run_id: str) -> list[Execution]:
        """What was executed for one run, in the order of its reports."""
        lines = [json.loads(line) for line in self._file.read_bytes().splitlines()]
        return [Execution(**{**line, "key": CallKey(*line["key"])}) for line in lines if line["run"] == run_id]


def report(address: str, execution: Execution) -> None:
    """Have one execution noted; it is on disk when this returns."""
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(TIMEOUT_S)
        link.connect(address)
        link.sendall(json.dumps(asdict(execution)).encode() + b"\n")
        assert link.recv(16) == b"noted\n", "the ledger did not note it"


def main(address: str, file: Path) -> None:
    """Note what is reported until somebody ends this process, or the test that started it is gone."""
    parent = os.getppid()
    with socket.socket(socket.AF_UNIX) as listening, file.open("ab", buffering=0) as kept:
        listening.bind(address)
        listening.listen(64)
        listening.settimeout(5)
        print("ready", flush=True)
        while os.getppid() == parent:
            with suppress(TimeoutError):
                link, _ = listening.accept()
                with link:
                    _note(link, kept.fileno())


def _note(link: socket.socket, descriptor: int) -> None:
    """Take one report. A reporter that was killed half-way executed nothing that anybody was told of."""
    link.settimeout(TIMEOUT_S)
    try:
        line = link.makefile("rb").readline()
        if line.endswith(b"\n"):
            os.write(descriptor, line)
            os.fsync(descriptor)
            link.sendall(b"noted\n")
    except OSError:
        return


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
