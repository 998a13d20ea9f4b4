"""The same program again and again, each time in a new process that can be killed: forked from one that has done the imports.

    python -m tests.benchmarks.lives MODULE ARGUMENT …

imports MODULE, and for every line of its input forks a process that calls `MODULE.main(ARGUMENT, …)`. It prints that process's id
when it begins and its exit code when it ended. The standard library only: the peers run it in their environment.
"""

from __future__ import annotations

import importlib
import os
import select
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Lives:
    """One life at a time. Made by `open_lives`."""

    def __init__(self, parent: subprocess.Popen[bytes]) -> None:
        self._parent = parent
        self._pid = 0

    def begin(self) -> None:
        """Start the next life; the one before has ended."""
        assert self._parent.stdin is not None
        self._parent.stdin.write(b"\n")
        self._parent.stdin.flush()
        self._pid = int(self._line())

    def ended(self, *, within_s: float = 0.0) -> bool:
        """True when it ended by itself, perhaps after waiting."""
        assert self._parent.stdout is not None
        ready, _, _ = select.select([self._parent.stdout], [], [], within_s)
        return bool(ready)

    def kill(self) -> int:
        """End it now; its exit code, which is -9 unless it had ended before."""
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        return self.code()

    def code(self) -> int:
        """The exit code; waits for the end."""
        code = int(self._line())
        self._pid = 0
        return code

    def close(self) -> None:
        """End the life, if there is one, and its parent."""
        if self._pid:
            self.kill()
        self._parent.kill()

    def _line(self) -> bytes:
        assert self._parent.stdout is not None
        line = self._parent.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._parent.args!r} ended with {self._parent.wait()}")
        return line


@contextmanager
def open_lives(argv: Sequence[str], environment: dict[str, str]) -> Iterator[Lives]:
    """The command's lives, none of them begun. No pipe is buffered, so that a line which is there is seen."""
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, bufsize=0) as parent:
        lives = Lives(parent)
        try:
            yield lives
        finally:
            lives.close()


def _serve(main: Callable[..., None], arguments: list[str]) -> None:
    for _ in sys.stdin.buffer:
        pid = os.fork()
        if pid == 0:
            _live(main, arguments)
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def _live(main: Callable[..., None], arguments: list[str]) -> None:
    """One life, to the end of its process; what it prints goes to stderr."""
    os.dup2(2, 1)
    code = 1
    try:
        main(*arguments)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    _serve(importlib.import_module(sys.argv[1]).main, sys.argv[2:])
