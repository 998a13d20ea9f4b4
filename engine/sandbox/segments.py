"""The files of the exchange, as lines of bytes: a writer towards the cell and a reader from it (docs/reference/protocol.md, Files).

The reader treats the cell's files as hostile. It made them and keeps their descriptors, so it never opens a name again; it
reads with bounded `pread` from its own offset, checks size and allocated blocks before, and takes no lock and maps nothing:
the cell can write, truncate, punch, extend and lock what it was given.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from cloche_guest.wire import FRAME_BYTES, SEGMENT_BYTES, SEGMENT_FILES

from engine.files import storage, write_all
from engine.sandbox.violations import violation

CHUNK_BYTES = 256 * 1024
# A file system may allocate ahead of a growing file (XFS up to the size again), so twice the bound is not yet an attack.
ALLOCATED_BYTES = 2 * SEGMENT_BYTES + 1024 * 1024


def segment_path(directory: Path, number: int) -> Path:
    """`000001.seg`, `000002.seg`, …"""
    return directory / f"{number:06d}.seg"


def outgoing_paths(directory: Path) -> tuple[Path, ...]:
    """The files that the cell's segments take turns in: the one being read and the next.

    Mounted one by one into a folder that is read-only in the cell, they are all that it can write on the host's disk, whoever it
    has become inside.
    """
    return tuple(segment_path(directory, number) for number in range(1, SEGMENT_FILES + 1))


def _make(path: Path, mode: int, flags: int, group: int) -> int:
    with storage(path):
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        os.fchown(descriptor, -1, group)
        os.fchmod(descriptor, mode)
    return descriptor


def _open_again(path: Path, flags: int) -> int:
    """A segment that another process of this user made, in an exchange that no untrusted code was near so far.

    Raises:
        StorageFull, EngineFailure: as `files.storage`; also for what is not a plain file of ours.
    """
    with storage(path):
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_nlink != 1:
            os.close(descriptor)
            raise OSError(errno.EPERM, "it is no plain file of ours")
    return descriptor


@dataclass
class _Written:
    path: Path
    last: int
    size: int


class SegmentWriter:
    """Appends lines to `in/`; the caller says where a segment ends, and which ones the cell has read."""

    def __init__(self, directory: Path, *, group: int, begun: bool = False) -> None:
        self._directory = directory
        self._group = group
        self._number = 1
        first, flags = segment_path(directory, 1), os.O_WRONLY | os.O_APPEND
        self._descriptor = _open_again(first, flags) if begun else _make(first, 0o640, flags, group)
        self._size = os.fstat(self._descriptor).st_size
        self._old: deque[_Written] = deque()
        self.bytes_written = 0

    def fits(self, line: bytes) -> bool:
        """False when the segment must be left before `line` (room for the `rotate` frame is kept)."""
        return self._size + len(line) + 1024 <= SEGMENT_BYTES

    def append(self, line: bytes) -> None:
        """Write one whole line.

        Raises:
            StorageFull, EngineFailure: as `files.storage`.
        """
        with storage(segment_path(self._directory, self._number)):
            write_all(self._descriptor, line)
        self._size += len(line)
        self.bytes_written += len(line)

    def rotate(self, line: bytes, *, last: int) -> None:
        """End the segment with the `rotate` line of sequence `last`; the next segment exists before the cell can look for it."""
        following = _make(
            segment_path(self._directory, self._number + 1), 0o640, os.O_WRONLY | os.O_APPEND, self._group
        )
        self.append(line)
        os.close(self._descriptor)
        self._old.append(_Written(segment_path(self._directory, self._number), last, self._size))
        self._descriptor, self._number, self._size = following, self._number + 1, 0

    @property
    def unread(self) -> int:
        """Bytes of the segments that were left and are not acknowledged."""
        return sum(segment.size for segment in self._old)

    def acknowledged(self, upto: int) -> None:
        """Remove the segments that the cell has read to their end."""
        while self._old and self._old[0].last <= upto:
            self._old.popleft().path.unlink(missing_ok=True)

    def close(self) -> None:
        """Give the descriptor back; the files go with the cell's directory."""
        os.close(self._descriptor)


class SegmentReader:
    """Gives the whole lines of `out/` one by one, without their newline."""

    def __init__(self, directory: Path, *, group: int, begun: bool = False) -> None:
        self._segments = deque(
            _open_again(path, os.O_RDWR) if begun else _make(path, 0o660, os.O_RDWR, group)
            for path in outgoing_paths(directory)
        )
        self._offset = 0
        self._buffer = bytearray()
        self._searched = 0
        self.bytes_read = 0

    def line(self) -> bytes | None:
        """The next whole line, or None when there is none yet.

        Raises:
            ExchangeError: segment.truncated, segment.oversized or frame.oversized.
        """
        while True:
            end = self._buffer.find(b"\n", self._searched)
            if end >= 0:
                found = bytes(memoryview(self._buffer)[:end])
                del self._buffer[: end + 1]
                self._searched = 0
                return found
            self._searched = len(self._buffer)
            if self._searched >= FRAME_BYTES:
                raise violation("frame.oversized", f"a line of more than {FRAME_BYTES} bytes")
            if not self._fill():
                return None

    def _fill(self) -> bool:
        descriptor = self._segments[0]
        status = os.fstat(descriptor)
        if status.st_size < self._offset:
            raise violation("segment.truncated", f"{status.st_size} bytes, {self._offset} were read")
        if status.st_size > SEGMENT_BYTES or status.st_blocks * 512 > ALLOCATED_BYTES:
            raise violation("segment.oversized", f"{status.st_size} bytes in {status.st_blocks} blocks of 512")
        if status.st_size == self._offset:
            return False
        chunk = os.pread(descriptor, min(CHUNK_BYTES, status.st_size - self._offset), self._offset)
        self._offset += len(chunk)
        self.bytes_read += len(chunk)
        self._buffer += chunk
        return bool(chunk)

    def rotate(self) -> None:
        """Leave the segment whose last line was read: its file is emptied, which is the cell's sign that it may be used again.

        Raises:
            ExchangeError: frame.out_of_order, something stands behind the `rotate`.
        """
        descriptor = self._segments[0]
        if self._buffer or os.fstat(descriptor).st_size != self._offset:
            raise violation("frame.out_of_order", "a segment goes on after its rotate")
        os.ftruncate(descriptor, 0)
        self._segments.rotate(-1)
        self._offset = 0

    @property
    def unfinished(self) -> bool:
        """True when what was read ends inside a line."""
        return bool(self._buffer)

    def close(self) -> None:
        """Give the descriptors back."""
        while self._segments:
            os.close(self._segments.popleft())
