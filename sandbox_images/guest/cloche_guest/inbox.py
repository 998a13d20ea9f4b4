"""The worker's end of the private channel, reading: whole replies, in the order in which they come."""

from __future__ import annotations

import json
import os
import select
from collections import deque
from typing import Any

READ_BYTES = 256 * 1024


class ChannelClosed(BaseException):
    """The supervisor is gone; the cell ends with it. Not an Exception: no program goes on without it."""


class Inbox:
    """Whole replies in the order in which they came, each with the parts of its value."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = bytearray()
        self._parts: list[str] = []
        self._replies: deque[tuple[dict[str, Any], list[str]]] = deque()
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)

    def next(self) -> tuple[dict[str, Any], list[str]]:
        """The next reply, waited for.

        Raises:
            ChannelClosed: there will be none.
        """
        while not self._replies:
            self._read()
        return self._replies.popleft()

    def look(self) -> bool:
        """True when a reply is there already."""
        while not self._replies and self._poll.poll(0):
            self._read()
        return bool(self._replies)

    def first(self) -> dict[str, Any]:
        """The next reply, which is there; it stays in line."""
        return self._replies[0][0]

    def _read(self) -> None:
        chunk = os.read(self._descriptor, READ_BYTES)
        if not chunk:
            raise ChannelClosed
        self._buffer += chunk
        if b"\n" not in chunk:
            return
        *lines, rest = str(self._buffer, "utf-8", "surrogateescape").split("\n")
        self._buffer[:] = rest.encode("utf-8", "surrogateescape")
        for line in lines:
            frame = json.loads(line)
            if frame["t"] == "part":
                self._parts.append(frame["data"])
            else:
                self._replies.append((frame, self._parts))
                self._parts = []
