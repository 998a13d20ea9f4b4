"""The bell: a FIFO in `out/` that wakes a supervisor which waits, so that it need not look for frames often.

It carries no data, only that there is something to read; a lost ring costs a second. Where a runtime does not carry FIFOs the
supervisor polls. It lies in `out/` because gVisor opens a FIFO for reading and writing on a writable mount only; the worker reaches
neither. The host keeps the descriptor with which it first opened it, and reads nothing from it.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from engine.files import storage

BELL = "bell"


def make_bell(path: Path, *, group: int) -> None:
    """The FIFO, for its owner and `group` alone.

    Raises:
        StorageFull, EngineFailure: as `files.storage`.
    """
    with storage(path):
        os.mkfifo(path, 0o600)
        os.chown(path, -1, group, follow_symlinks=False)
        path.chmod(0o660)


class Bell:
    """The host's end, open for both directions, so that it can be rung before the supervisor is there and after it is gone.

    Raises:
        StorageFull, EngineFailure: as `files.storage`; it is no FIFO.
    """

    def __init__(self, path: Path) -> None:
        with storage(path):
            self._descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
            if not stat.S_ISFIFO(os.fstat(self._descriptor).st_mode):
                os.close(self._descriptor)
                raise OSError("it is no FIFO")

    def ring(self) -> None:
        """Wake the supervisor if it waits; one that nobody answers, a full pipe, needs no more."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._descriptor, b"\0")

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._descriptor)
