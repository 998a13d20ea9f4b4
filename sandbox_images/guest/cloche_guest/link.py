"""The supervisor's end of the exchange: frames in from `in/`, frames out to `out/` (docs/reference/protocol.md, Files).

Nothing here waits. What cannot be written yet, because the host has not emptied the next segment's file, stays in memory and
`blocked` says so; whoever causes frames stops causing them until it is False again.
"""

from __future__ import annotations

import os
from collections import deque
from typing import Any

from cloche_guest import wire
from cloche_guest.digest import sha256_hex

_CHUNK = 256 * 1024
_ROTATE_ROOM = 256
_ENVELOPE_ROOM = 100


class HostBroke(Exception):
    """The host broke the protocol, or a value it announced is not there as announced: the cell cannot go on."""


def segment(directory: str, number: int) -> str:
    """Path of a segment: `000001.seg`, `000002.seg`, …"""
    return os.path.join(directory, f"{number:06d}.seg")


class Received(dict[str, Any]):
    """A frame of the host, with the line that it came in (no newline).

    A `part` frame holds the file that it announces open from the moment at which it came: what is acknowledged after that, the host
    removes.
    """

    line = b""
    descriptor = -1


class Reader:
    """Frames from the host, in order, checked; `received` is the sequence of the last one.

    `generation` is that of the first frame until the job, which sets it: a cell may wait before anybody knows for which run.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._number = 1
        self._descriptor: int | None = None
        self._offset = 0
        self._buffer = bytearray()
        self.generation: int | None = None
        self.received = 0

    def next(self) -> Received | None:
        """The next frame, `rotate` included, or None when there is none yet.

        Raises:
            HostBroke: by the name of what is wrong with it.
        """
        line = self._line()
        if line is None:
            return None
        try:
            frame = Received(wire.parse(line))
            frame.line = line
            kind = wire.check_fields(frame, wire.HOST_FRAMES)
            if self.generation is None or kind == "job":
                self.generation = frame["g"] if type(frame.get("g")) is int else -1
            wire.check_order(frame, generation=self.generation, expected=self.received + 1)
        except wire.WireError as error:
            raise HostBroke(str(error)) from error
        self.received += 1
        if kind == "rotate":
            self._leave()
        return frame

    def _line(self) -> bytes | None:
        end = self._buffer.find(b"\n")
        while end < 0:
            if len(self._buffer) >= wire.FRAME_BYTES:
                raise HostBroke("frame.oversized: a line without an end")
            searched = len(self._buffer)
            if not self._fill():
                return None
            end = self._buffer.find(b"\n", searched)
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line

    def _fill(self) -> bool:
        if self._descriptor is None:
            try:
                self._descriptor = os.open(segment(self._directory, self._number), os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return False
        chunk = os.pread(self._descriptor, _CHUNK, self._offset)
        self._offset += len(chunk)
        self._buffer += chunk
        return bool(chunk)

    def _leave(self) -> None:
        if self._buffer:
            raise HostBroke("frame.out_of_order: a segment goes on after its rotate")
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor, self._offset, self._number = None, 0, self._number + 1


class Writer:
    """Frames to the host. The first needs a `generation`, which the host's hello gives."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._number = 1
        self._descriptor: int | None = None
        self._size = 0
        self._waiting: deque[tuple[bytes, bool]] = deque()
        self.generation = 0
        self.sent = 0

    @property
    def blocked(self) -> bool:
        """True while frames wait for a segment."""
        return bool(self._waiting)

    def send(self, kind: str, **fields: Any) -> None:
        """Write a frame, or keep it until `flush` can.

        Raises:
            wire.WireError: the frame cannot be written as one line; nothing was counted.
        """
        line = wire.dump(self._frame(kind, fields))
        if self._size + len(line) + _ROTATE_ROOM > wire.SEGMENT_BYTES:
            self._put(wire.dump(self._frame("rotate", {})), last=True)
            self._size = 0
            line = wire.dump(self._frame(kind, fields))
        self._size += len(line)
        self._put(line)

    def pass_on(self, line: bytes) -> None:
        """Send a checked frame that came as this line, without `v`, `g` and `q`, and begins with its `t`: no need to write it anew.

        Raises:
            wire.WireError: frame.oversized, with what is put before it; nothing was counted.
        """
        if len(line) + _ENVELOPE_ROOM > wire.FRAME_BYTES:
            raise wire.WireError("frame.oversized", f"{len(line)} bytes, and a frame has at most {wire.FRAME_BYTES}")
        if self._size + len(line) + _ENVELOPE_ROOM + _ROTATE_ROOM > wire.SEGMENT_BYTES:
            self._put(wire.dump(self._frame("rotate", {})), last=True)
            self._size = 0
        whole = b'{"v":%d,"g":%d,"q":%d,%b\n' % (wire.VERSION, self.generation, self.sent + 1, line[1:])
        self._size += len(whole)
        self._put(whole)

    def flush(self) -> bool:
        """Write what waits; True when nothing does any more."""
        while self._waiting and self._write(*self._waiting[0]):
            self._waiting.popleft()
        return not self._waiting

    def _frame(self, kind: str, fields: dict[str, Any]) -> dict[str, Any]:
        return {"v": wire.VERSION, "g": self.generation, "q": self.sent + 1, "t": kind, **fields}

    def _put(self, line: bytes, *, last: bool = False) -> None:
        self.sent += 1
        self._waiting.append((line, last))
        self.flush()

    def _write(self, line: bytes, last: bool) -> bool:
        if self._descriptor is None:
            path = segment(self._directory, (self._number - 1) % wire.SEGMENT_FILES + 1)
            try:
                if os.stat(path, follow_symlinks=False).st_size:
                    return False
                self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
            except FileNotFoundError:
                return False
        view = memoryview(line)
        while view:
            view = view[os.write(self._descriptor, view) :]
        if last:
            os.close(self._descriptor)
            self._descriptor, self._number = None, self._number + 1
        return True


def hold_part(incoming: str, frame: Received) -> None:
    """Open the file that a `part` frame announces.

    Raises:
        HostBroke: it has another name than a part, or is not there.
    """
    if frame["file"] != f"parts/{frame['id']}":
        raise HostBroke(f"part.unknown: {frame['file'][:40]}")
    try:
        frame.descriptor = os.open(os.path.join(incoming, frame["file"]), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        raise HostBroke(f"part.unknown: {error.strerror}") from error


def read_part(frame: Received, *, value_bytes: int) -> str:
    """Text of the value that a `part` frame announced, read whole, once.

    Raises:
        HostBroke: size or digest is not what the frame says.
    """
    with open(frame.descriptor, "rb") as file:
        if not 0 <= frame["size"] <= value_bytes:
            raise HostBroke(f"part.unknown: {frame['size']} bytes")
        data = file.read(frame["size"] + 1)
    if len(data) != frame["size"] or sha256_hex(data) != frame["sha256"]:
        raise HostBroke("part.unknown: the file is not what was announced")
    return data.decode()
