"""One output stream of untrusted code: the head goes on as it comes, of the rest only the tail is kept, everything is counted."""

from __future__ import annotations

from collections import deque

_FLUSH_BYTES = 48 * 1024
_PIECE_BYTES = 64 * 1024
"""The tail is kept in pieces of at least this size: one of two bytes, as a program may write them, would take 28 times its own."""


class Stream:
    """Bounded by `limit_bytes`: half of it head, half of it tail. What lies between is counted and dropped."""

    def __init__(self, limit_bytes: int) -> None:
        self._head_left = limit_bytes // 2
        self._tail_limit = limit_bytes - limit_bytes // 2
        self._pending = bytearray()
        self._tail: deque[bytearray] = deque()
        self._tail_size = 0
        self.total = 0
        self.sent = 0

    def feed(self, data: bytes) -> None:
        """Take what the program wrote."""
        self.total += len(data)
        if self._head_left:
            head = data[: self._head_left]
            self._head_left -= len(head)
            self._pending += head
            data = data[len(head) :]
        if not data:
            return
        if not self._tail or len(self._tail[-1]) >= min(_PIECE_BYTES, self._tail_limit // 8):
            self._tail.append(bytearray())
        self._tail[-1] += data
        self._tail_size += len(data)
        while self._tail and self._tail_size - len(self._tail[0]) >= self._tail_limit:
            self._tail_size -= len(self._tail.popleft())

    @property
    def pending(self) -> int:
        """Bytes of the head that wait to be taken."""
        return len(self._pending)

    def take(self) -> tuple[int, bytes] | None:
        """Offset and bytes of the next piece of the head, at most 48 KiB."""
        if not self._pending:
            return None
        data = bytes(self._pending[:_FLUSH_BYTES])
        del self._pending[: len(data)]
        offset = self.sent
        self.sent += len(data)
        return offset, data

    def tail(self) -> list[tuple[int, bytes]]:
        """Offsets and pieces of the tail; to be asked once, after the last byte and the last `take`."""
        kept = b"".join(self._tail)[-self._tail_limit :] if self._tail_limit else b""
        start = self.total - len(kept)
        self.sent += len(kept)
        return [(start + i, kept[i : i + _FLUSH_BYTES]) for i in range(0, len(kept), _FLUSH_BYTES)]

    @property
    def cut(self) -> int:
        """Bytes that were dropped; right after `tail`."""
        return self.total - self.sent


def clipped(stream: Stream) -> str:
    """Head and tail of a finished stream as text for people; a line between them says how much is missing."""
    head = bytearray()
    while (piece := stream.take()) is not None:
        head += piece[1]
    tail = b"".join(data for _, data in stream.tail())
    shown = head.decode(errors="backslashreplace")
    if stream.cut:
        shown += f"\n[{stream.cut} bytes cut]\n"
    return shown + tail.decode(errors="backslashreplace")
