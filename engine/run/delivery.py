"""Which outcome the program gets next. Pure.

A program gets one answer at a time, and only while it is quiet: when nothing of it can go on without one. Among the calls that
wait, the one whose outcome was recorded first is answered first. So code that can see which of two branches was done first sees
the same on every replay, whatever takes how long this time (docs/concepts/replay.md).
"""

from __future__ import annotations

import heapq


class Delivery:
    """The unanswered calls of one pass, by their numbers."""

    def __init__(self) -> None:
        self.quiet = False
        self._waiting: set[int] = set()
        self._ready: list[tuple[int, int]] = []

    @property
    def waiting(self) -> frozenset[int]:
        """Calls that got no answer yet and were not dropped."""
        return frozenset(self._waiting)

    @property
    def has_next(self) -> bool:
        """True when an outcome is there for a call that waits."""
        self._forget_dropped()
        return bool(self._ready)

    def called(self, number: int, *, waits: bool) -> None:
        """A call was made; with `waits` the program is quiet after it."""
        self._waiting.add(number)
        self.quiet = waits

    def ready(self, number: int, order: int) -> None:
        """The call has an outcome, recorded as the `order`-th line of the journal."""
        heapq.heappush(self._ready, (order, number))

    def drop(self, number: int) -> None:
        """Nobody waits for the call any more."""
        self._waiting.discard(number)

    def next(self) -> int | None:
        """The call to answer now, or None when the program is busy or nothing is there; the program is then busy."""
        if not self.quiet or not self.has_next:
            return None
        _, number = heapq.heappop(self._ready)
        self._waiting.discard(number)
        self.quiet = False
        return number

    def _forget_dropped(self) -> None:
        while self._ready and self._ready[0][1] not in self._waiting:
            heapq.heappop(self._ready)
