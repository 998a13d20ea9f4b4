"""Output files of a finished run: found and read by a child with the worker's own rights, passed on in pieces by PID 1.

PID 1 cannot read what the worker made private, and must not follow what the worker linked. The child runs when every
process of the worker is dead, so what it lists is what it reads. It opens component by component, follows no link, opens
nothing but regular files and stops at the bounds.
"""

from __future__ import annotations

import base64
import json
import os
import stat
from collections.abc import Callable
from typing import Any

from cloche_guest.children import CHANNEL

PIECE_BYTES = 384 * 1024
DEPTH = 12
PATH_CHARACTERS = 200
SKIPPED = 20
_HEADER_BYTES = 8 * 1024 * 1024
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Found:
    """What lies below the output folder. `problem` is set when a bound is exceeded; then nothing is passed on."""

    def __init__(self) -> None:
        self.files: list[tuple[str, int]] = []
        self.skipped: list[str] = []
        self.left_out = 0
        self.problem = ""

    def skip(self, path: str, why: str) -> None:
        """Note an entry that is not passed on."""
        self.left_out += 1
        if len(self.skipped) < SKIPPED:
            shown = path.encode("utf-8", "backslashreplace").decode()[:PATH_CHARACTERS]
            self.skipped.append(f"{shown}: {why}")


def find(top: str, *, files: int, total_bytes: int) -> Found:
    """List the regular files below `top`, ordered by path. A missing `top` is empty; one that is a link is skipped."""
    found = Found()
    try:
        descriptor = os.open(top, _DIRECTORY)
    except FileNotFoundError:
        return found
    except OSError as error:
        found.skip("", f"not a readable folder: {error.strerror}")
        return found
    waiting = [("", descriptor)]
    left = total_bytes
    entries = 0
    while waiting and not found.problem:
        prefix, descriptor = waiting.pop()
        try:
            for name in sorted(os.listdir(descriptor)):
                entries += 1
                path = prefix + name
                size = _look(descriptor, name, path, found, waiting)
                left -= size or 0
                if left < 0 or len(found.files) > files or entries > 10 * files + 1000:
                    found.problem = "more or larger files than allowed"
                    break
        finally:
            os.close(descriptor)
    for _, descriptor in waiting:
        os.close(descriptor)
    found.files.sort()
    return found


def _look(at: int, name: str, path: str, found: Found, waiting: list[tuple[str, int]]) -> int | None:
    """One entry: a file is listed and its size given, a folder waits for its turn, anything else is skipped."""
    if not path.isprintable() or "\\" in path or len(path) > PATH_CHARACTERS:
        found.skip(path, "a name that cannot be kept")
        return None
    try:
        status = os.stat(name, dir_fd=at, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            if path.count("/") + 1 >= DEPTH or len(waiting) >= 100:
                found.skip(path, "too deep")
            else:
                waiting.append((f"{path}/", os.open(name, _DIRECTORY, dir_fd=at)))
        elif stat.S_ISREG(status.st_mode):
            os.close(os.open(name, _FILE, dir_fd=at))
            found.files.append((path, status.st_size))
            return status.st_size
        else:
            found.skip(path, "not a regular file")
    except OSError as error:
        found.skip(path, f"unreadable: {error.strerror}")
    return None


def send(top: str, *, files: int, total_bytes: int) -> int:
    """Runs in the child: a JSON line with the list, then the files' bytes one after the other."""
    found = find(top, files=files, total_bytes=total_bytes)
    listed = [] if found.problem else found.files
    header = {"problem": found.problem, "skipped": found.skipped, "left_out": found.left_out, "files": listed}
    _write(json.dumps(header).encode() + b"\n")
    for path, size in listed:
        _send_file(top, path, size)
    return 0


def _send_file(top: str, path: str, size: int) -> None:
    descriptor = os.open(top, _DIRECTORY)
    *folders, name = path.split("/")
    for folder in folders:
        inner = os.open(folder, _DIRECTORY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    file = os.open(name, _FILE, dir_fd=descriptor)
    os.close(descriptor)
    while size:
        data = os.read(file, min(size, 256 * 1024))
        if not data:
            raise OSError("a file became shorter while nothing could write to it")
        _write(data)
        size -= len(data)
    os.close(file)


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(CHANNEL, view) :]


class Receiver:
    """PID 1's side: turns the child's bytes into `artifact` frames. `header` is None until the list came."""

    def __init__(self, emit: Callable[..., None]) -> None:
        self._emit = emit
        self._buffer = bytearray()
        self._files: list[tuple[str, int]] = []
        self._piece = 1
        self.header: dict[str, Any] | None = None

    def feed(self, data: bytes) -> None:
        """Take bytes and pass on every piece that is whole."""
        self._buffer += data
        if self.header is None:
            end = self._buffer.find(b"\n")
            if end < 0:
                if len(self._buffer) > _HEADER_BYTES:
                    raise ValueError("the list of output files has no end")
                return
            self.header = json.loads(self._buffer[:end])
            self._files = [(path, size) for path, size in self.header["files"]][::-1]
            del self._buffer[: end + 1]
        while self._files and self._pass_on():
            pass

    @property
    def complete(self) -> bool:
        """True when every file that was listed has been passed on."""
        return self.header is not None and not self._files and not self._buffer

    def _pass_on(self) -> bool:
        path, size = self._files[-1]
        of = max(1, -(-size // PIECE_BYTES))
        wanted = size - (self._piece - 1) * PIECE_BYTES if self._piece == of else PIECE_BYTES
        if len(self._buffer) < wanted:
            return False
        data = base64.b64encode(self._buffer[:wanted]).decode()
        del self._buffer[:wanted]
        self._emit("artifact", path=path, i=self._piece, of=of, size=size, data=data)
        self._piece += 1
        if self._piece > of:
            self._files.pop()
            self._piece = 1
        return True
