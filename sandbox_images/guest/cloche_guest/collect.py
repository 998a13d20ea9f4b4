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
import time
from collections.abc import Callable
from typing import Any

from cloche_guest.children import CHANNEL

PIECE_BYTES = 384 * 1024
DEPTH = 12
PATH_CHARACTERS = 200
SKIPPED = 20
LOOK_S = 10.0
"""So long is looked for files; a tree that takes longer has too many of something."""

_HEADER_BYTES = 8 * 1024 * 1024
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_KINDS = {stat.S_IFLNK: "a link", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket"}
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Found:
    """What lies below the output folder. `problem` is set when a bound is exceeded; then nothing is passed on."""

    def __init__(self, *, files: int, total_bytes: int, patience_s: float) -> None:
        self.files: list[tuple[str, int]] = []
        self.skipped: list[str] = []
        self.left_out = 0
        self.problem = ""
        self._most_files, self._most_bytes = files, total_bytes
        self._most_entries = 10 * files + 1000
        self._patience_s = patience_s
        self._until = time.monotonic() + patience_s
        self._bytes = self._entries = 0

    def skip(self, path: str, why: str) -> None:
        """Note an entry that is not passed on."""
        self.left_out += 1
        if len(self.skipped) < SKIPPED:
            self.skipped.append(f"{_shown(path)}: {why}")

    def take(self, path: str, size: int) -> None:
        """Note a file that is passed on. A sparse one counts with all that would be read of it."""
        self.files.append((path, size))
        self._bytes += size
        if len(self.files) > self._most_files:
            self.problem = f"more than {self._most_files} files"
        elif self._bytes > self._most_bytes:
            self.problem = f"more than {self._most_bytes} bytes"

    def look(self) -> bool:
        """Count an entry that is looked at; False when it is one too many, or took too long."""
        self._entries += 1
        if self._entries > self._most_entries:
            self.problem = f"more than {self._most_entries} entries"
        elif time.monotonic() > self._until:
            self.problem = f"looking through it took more than {self._patience_s:g} s"
        return not self.problem


def find(top: str, *, files: int, total_bytes: int, patience_s: float = LOOK_S) -> Found:
    """List the regular files below `top`, ordered by path. A missing `top` is empty; one that is a link is skipped."""
    found = Found(files=files, total_bytes=total_bytes, patience_s=patience_s)
    try:
        # asked first: gVisor follows a link although it is told O_NOFOLLOW, when it is told O_DIRECTORY too (20221219)
        if not stat.S_ISDIR(os.stat(top, follow_symlinks=False).st_mode):
            found.skip(".", "not a folder")
            return found
        descriptor = os.open(top, _DIRECTORY)
    except FileNotFoundError:
        return found
    except OSError as error:
        found.skip(".", f"not a readable folder: {error.strerror}")
        return found
    _walk(descriptor, "", 1, found)
    found.files.sort()
    return found


def _walk(descriptor: int, prefix: str, depth: int, found: Found) -> None:
    """One folder, whose descriptor is closed; as many are open at once as folders lie in each other."""
    try:
        names = []
        with os.scandir(descriptor) as entries:
            for entry in entries:
                if not found.look():
                    return
                names.append(entry.name)
        for name in sorted(names):
            if found.problem:
                return
            _look(descriptor, name, prefix + name, depth, found)
    except OSError as error:
        found.skip(prefix, f"unreadable: {error.strerror}")
    finally:
        os.close(descriptor)


def _look(at: int, name: str, path: str, depth: int, found: Found) -> None:
    """One entry: a file is listed, a folder walked, anything else skipped."""
    if not path.isprintable() or "\\" in path:
        found.skip(path, "a name that cannot be kept")
        return
    if len(path) > PATH_CHARACTERS:
        found.skip(path, f"a path of more than {PATH_CHARACTERS} characters")
        return
    try:
        status = os.stat(name, dir_fd=at, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            if depth >= DEPTH:
                found.skip(path, "too deep")
            else:
                _walk(os.open(name, _DIRECTORY, dir_fd=at), f"{path}/", depth + 1, found)
        elif stat.S_ISREG(status.st_mode):
            os.close(os.open(name, _FILE, dir_fd=at))
            found.take(path, status.st_size)
        else:
            found.skip(path, _KINDS.get(stat.S_IFMT(status.st_mode), "not a regular file"))
    except OSError as error:
        found.skip(path, f"unreadable: {error.strerror}")


def _shown(path: str) -> str:
    """A path as text without control characters, line ends and lone surrogates, clipped."""
    written = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in path[:PATH_CHARACTERS])
    return "".join(written)[:PATH_CHARACTERS]


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
    """PID 1's side: turns the child's bytes into `artifact` frames. `header` is None until the list came.

    `passed_on` counts the files that went out whole.
    """

    def __init__(self, emit: Callable[..., None]) -> None:
        self._emit = emit
        self._buffer = bytearray()
        self._files: list[tuple[str, int]] = []
        self._piece = 1
        self.header: dict[str, Any] | None = None
        self.passed_on = 0

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
            self.passed_on += 1
        return True
