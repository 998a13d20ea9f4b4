"""Whether calls come in the order of the record, by what must hold in every pass of a program that decides by its answers alone.

1. A call that is made after an answer was recorded after that answer.
2. Calls that the first generation began were begun in the order in which the program makes them, unless one of them had to wait
   for room.

The second is not asked of later generations, nor of a fork: what they replay ahead of the program may begin a call before one
that was made earlier. Nor is it asked where a failed call was executed again later, because the first generation saw it fail.
"""

from __future__ import annotations

from itertools import pairwise

from engine.run.executing import AT_ONCE
from engine.run.history import History, Record


class RecordedOrder:
    """Told of a pass step by step: each call that is made, each answer that is given."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._answered: Record | None = None
        self._answered_seq = 0
        self._begun: Record | None = None
        again = any(
            before.outcome is not None for records in history.places.values() for before, _ in pairwise(records)
        )
        self._first_tells = not again and 0 not in history.starts

    def made(self, record: Record) -> Record | None:
        """The call of this record is made now; gives a record that it cannot come after, if there is one."""
        if self._history.at(record.key)[0].seq < self._answered_seq:
            return self._answered
        if not self._first_tells or record.generation != 1:
            return None
        before = self._begun
        if before is not None and before.seq > record.seq:
            return None if self._is_full_at(record.seq) else before
        self._begun = record
        return None

    def answered(self, record: Record) -> None:
        """The program gets the outcome of this record."""
        # The first outcome that the call ever had is the one that later calls were recorded after.
        first = min(one.ended_seq for one in self._history.at(record.key) if one.outcome is not None)
        if first > self._answered_seq:
            self._answered, self._answered_seq = record, first

    def _is_full_at(self, seq: int) -> bool:
        """True when so many calls were being executed then that others had to wait."""
        running = (
            record.started.kind == "" and (record.outcome is None or record.ended_seq > seq)
            for record in self._history.starts[1]
            if record.seq < seq
        )
        return sum(running) >= AT_ONCE
