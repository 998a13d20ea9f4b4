"""Answers that are sent before their calls are made: a replay without a way to and fro for each call.

A program that runs again makes the same calls in the same order. So what the host would answer to its first calls is known: the
records in the order in which their places were first reached are calls 1, 2, 3, …, up to the first one that must be executed. They
are sent in the order in which the program got them before, each with the key of the call that it is meant for. The worker takes
one only for exactly that call; at the first that does not fit it gives up all that were sent ahead, says how many it took, and
everything goes on as if nothing had been. The last answer sent ahead fits no call, so that this word always comes.

Decides what to send and what became of it; sends nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto

from engine.run.calls import CallKey, Effects, key_digest
from engine.run.history import History, Record
from engine.run.replay import Replay, decide

LEAST = 8
"""Fewer answers than this are not worth it."""

WINDOW = 256
"""So far beyond the last call that was made are answers sent."""

NO_KEY = "0" * 64
"""Fits no call."""

_NO_NUMBER = 2**40


class Fit(Enum):
    """What a call is to the answers that were sent, or will be sent, ahead."""

    ANSWERED = auto()
    OTHER = auto()
    BEYOND = auto()


@dataclass(frozen=True)
class Planned:
    """The answer to the call `number`; without a record it is the last one, which fits no call."""

    number: int
    record: Record | None

    @property
    def key(self) -> str:
        """What the worker compares with the call."""
        return NO_KEY if self.record is None else key_digest(self.record.key)


class Ahead:
    """The answers of one pass that are sent ahead. `active` until the worker said how many of them it took."""

    def __init__(self, history: History, *, fits: Callable[[Record], bool]) -> None:
        """`fits` is False for a record whose value is too large to be sent unasked."""
        self._plan = _plan(history, fits)
        self._records = dict(self._plan)
        self._sent = 0
        self._made = 0
        self.active = len(self._plan) >= LEAST

    def due(self) -> Iterator[Planned]:
        """What is to be sent now, in this order."""
        while self.active and self._sent <= len(self._plan):
            if self._sent == len(self._plan):
                self._sent += 1
                yield Planned(_NO_NUMBER, None)
                return
            number, record = self._plan[self._sent]
            if number > self._made + WINDOW:
                return
            self._sent += 1
            yield Planned(number, record)

    def fit(self, number: int, key: CallKey) -> Fit:
        """Compare a call, the next one, with what was planned for its number."""
        self._made = number
        record = self._records.get(number)
        if record is None:
            return Fit.BEYOND
        return Fit.ANSWERED if record.key == key else Fit.OTHER

    def untaken(self, taken: int) -> list[int]:
        """The worker took the first `taken` answers and gave up the others: gives the made calls that got none."""
        self.active = False
        return sorted(number for number, _ in self._plan[taken:] if number <= self._made)


def _plan(history: History, fits: Callable[[Record], bool]) -> list[tuple[int, Record]]:
    planned: list[tuple[int, Record]] = []
    others = float("inf")
    whole = True
    for number, records in enumerate(history.places.values(), start=1):
        record = records[-1]
        replayed = isinstance(decide(history, record.key, effects=Effects.SOME), Replay)
        whole = whole and replayed and fits(record)
        if whole:
            planned.append((number, record))
        elif replayed:
            others = min(others, record.ended_seq)
    # What the program got after one of the others is not known to come before it now.
    planned = [(number, record) for number, record in planned if record.ended_seq < others]
    return sorted(planned, key=lambda item: item[1].ended_seq)
