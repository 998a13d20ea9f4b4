"""Whether calls come in the order of the record, by what must hold in every pass of a program that decides by its answers alone.

1. A call that is made after an answer was recorded after that answer.
2. The calls that one generation began were begun in the order in which the program makes them.

The second is not asked of what a generation could not know: of one before a failed call was executed again, of calls that were
held back because an earlier generation had dropped them, and of records that a fork took from several generations.
"""

from __future__ import annotations

from itertools import pairwise

from engine.run.history import History, Record


class RecordedOrder:
    """Told of a pass step by step: each call that is made, each answer that is given."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._answered: Record | None = None
        self._answered_seq = 0
        self._begun: dict[int, Record] = {}
        again = [
            record.generation
            for records in history.places.values()
            for before, record in pairwise(records)
            if before.outcome is not None
        ]
        self._steady_from = max(again, default=1)

    def made(self, record: Record) -> Record | None:
        """The call of this record is made now; gives a record that it cannot come after, if there is one."""
        if self._history.at(record.key)[0].seq < self._answered_seq:
            return self._answered
        if record.generation < self._steady_from or self._was_held(record):
            return None
        before = self._begun.get(record.generation)
        if before is not None and before.seq > record.seq:
            return before
        self._begun[record.generation] = record
        return None

    def answered(self, record: Record) -> None:
        """The program gets the outcome of this record."""
        # The first outcome that the call ever had is the one that later calls were recorded after.
        first = min(one.ended_seq for one in self._history.at(record.key) if one.outcome is not None)
        if first > self._answered_seq:
            self._answered, self._answered_seq = record, first

    def _was_held(self, record: Record) -> bool:
        return any(one.dropped for one in self._history.at(record.key) if one is not record)
