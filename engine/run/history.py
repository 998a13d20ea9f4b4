"""A journal folded into what matters for going on: generations, records of calls, decisions.

The fold refuses events that cannot have been written in this order; it decides nothing about replay.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import assert_never

from engine.run.calls import CallKey
from engine.run.events import (
    Artifact,
    CallCompleted,
    CallDropped,
    CallFailed,
    CallStarted,
    CallUnknown,
    CellEnded,
    CellStarted,
    Decision,
    Event,
    Line,
    Output,
    RunCreated,
    RunFinished,
    RunStarted,
    RunWaiting,
)
from engine.run.status import FINAL, Status

Outcome = CallCompleted | CallFailed


class Inconsistent(ValueError):
    """An event that cannot stand where it stands; the text says why."""


@dataclass
class Record:
    """One execution of a call. `outcome` is None while it runs and for ever when nobody saw its end (unknown).

    `rerun`: a person decided that this unknown attempt is made again. `settled`: a person said how it ended. `lost`: an event
    calls its outcome unknown. `dropped`: the program stopped waiting for it, in some generation. `generation` 0: taken over from
    the run that this one was forked from. `ended_seq` is the `s` of its outcome: answers are given in the order of these.
    """

    seq: int
    generation: int
    started_at: float
    started: CallStarted
    outcome: Outcome | None = None
    ended_at: float | None = None
    ended_seq: int = 0
    rerun: bool = False
    lost: bool = False
    settled: bool = False
    dropped: bool = False

    @property
    def is_question(self) -> bool:
        """True for a question to a person, which stays open over generations until it is answered."""
        return self.started.kind == "person"

    @property
    def key(self) -> CallKey:
        return self.started.key


@dataclass
class Generation:
    """One attempt at the run, in at most one cell. `last_at` is when its last event was written.

    `lived_s` is the time between its events, as far as it can be true: a clock that was set forward by more than the run may take
    adds nothing.
    """

    number: int
    started_at: float
    started: RunStarted
    last_at: float
    cell: CellStarted | None = None
    cell_end: CellEnded | None = None
    waiting: RunWaiting | None = None
    finished: RunFinished | None = None
    ended_at: float | None = None
    outputs: list[Output] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    lived_s: float = 0.0

    @property
    def active_s(self) -> float:
        """Seconds that it took: its own figure, or the time to its last event when it died."""
        if self.waiting is not None:
            return self.waiting.active_s
        return self.finished.active_s if self.finished else self.lived_s

    @property
    def told_of_the_program(self) -> bool:
        """True when the program itself raised out of its entry, so that its end names the call that left it, if one did."""
        end = self.finished
        return end is not None and end.status is Status.FAILED and end.reason == "program"


@dataclass
class History:
    """The fold. `places` maps (scope, function, n) to its records in order; `records` maps the `s` of their start.

    `gap_most_s` bounds the time between two events of a generation that is believed: the active time of the run.
    """

    created: RunCreated | None = None
    created_at: float = 0.0
    generations: list[Generation] = field(default_factory=list)
    records: dict[int, Record] = field(default_factory=dict)
    places: dict[tuple[str, str, int], list[Record]] = field(default_factory=dict)
    starts: dict[int, list[Record]] = field(default_factory=dict)
    artifacts: dict[str, Artifact] = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)
    replies_used: set[int] = field(default_factory=set)
    executions: int = 0
    seq: int = 0
    gap_most_s: float = math.inf

    @property
    def generation(self) -> int:
        """Number of the current generation; 0 before the first."""
        return len(self.generations)

    @property
    def finished(self) -> RunFinished | None:
        """How the current generation ended; None while it runs, and when its owner died."""
        return self.generations[-1].finished if self.generations else None

    @property
    def waiting(self) -> RunWaiting | None:
        """What the run waits for without a cell; None when it does not."""
        return self.generations[-1].waiting if self.generations and self.finished is None else None

    @property
    def is_final(self) -> bool:
        """True when nothing may follow."""
        return self.finished is not None and self.finished.status in FINAL

    def latest(self, key: CallKey) -> Record | None:
        """The last record with exactly this key."""
        found = [record for record in self.at(key) if record.key == key]
        return found[-1] if found else None

    def at(self, key: CallKey) -> list[Record]:
        """All records with the scope, function and n of this key, whatever their arguments."""
        return self.places.get((key.scope, key.fn, key.n), [])

    def open_records(self) -> list[Record]:
        """Records without an outcome that no event calls unknown or dropped yet, questions left out."""
        return [
            record
            for record in self.records.values()
            if record.outcome is None and not (record.lost or record.dropped or record.is_question)
        ]

    def waits_for(self, record: Record) -> bool:
        """True for a call that the run waits for without a cell."""
        return self.waiting is not None and record.seq in self.waiting.calls

    def open_questions(self) -> list[Record]:
        """Questions that somebody may answer now: those that the program gave up only when it waits for them again."""
        return [
            record
            for record in self.records.values()
            if record.is_question and record.outcome is None and (not record.dropped or self.waits_for(record))
        ]

    def cap(self, configured: int) -> int:
        """The cap that holds: the one of run.json or the last one that a person raised it to."""
        raised = [decision.value for decision in self.decisions if decision.what == "raise_cap"]
        return int(raised[-1]) if raised else configured

    def unended_cells(self) -> list[str]:
        """Cells of earlier generations whose end nobody recorded."""
        return [g.cell.cell for g in self.generations if g.cell and (g.cell_end is None or g.cell_end.left)]

    def apply(self, line: Line) -> None:
        """Take in the next line.

        Raises:
            Inconsistent: it cannot follow what came before.
        """
        self.check(line)
        self.take(line)

    def take(self, line: Line) -> None:
        """As `apply`, for a line that passed `check`."""
        event = line.event
        match event:
            case CallStarted():
                self._start(line, event)
            case CallCompleted() | CallFailed():
                self._end(line, event)
            case RunCreated():
                self.created, self.created_at = event, line.at
            case RunStarted():
                self.generations.append(Generation(line.generation, line.at, event, line.at))
            case RunFinished():
                generation = self._current(line)
                generation.finished, generation.ended_at = event, line.at
            case RunWaiting():
                generation = self._current(line)
                generation.waiting, generation.ended_at = event, line.at
            case CellStarted():
                self._current(line).cell = event
            case CellEnded():
                self._end_cell(event)
            case Output():
                self._current(line).outputs.append(event)
            case Artifact():
                self.artifacts[event.path] = event
            case Decision():
                self._decide(event)
            case CallUnknown():
                self._record(event.of).lost = True
            case CallDropped():
                self._record(event.of).dropped = True
            case _:
                assert_never(event)
        self.seq = line.seq
        # What a later owner or a person adds says nothing of how long the generation lived.
        if self.generations and not isinstance(event, RunFinished | CellEnded | CallUnknown | Decision):
            self._live_on(self.generations[-1], line.at)

    def _live_on(self, generation: Generation, at: float) -> None:
        gap_s = at - generation.last_at
        if 0 <= gap_s <= self.gap_most_s:
            generation.lived_s += gap_s
        generation.last_at = at

    def check(self, line: Line) -> None:
        """Pass for a line whose event can stand here.

        Raises:
            Inconsistent: it cannot.
        """
        if self._goes_on_as_usual(line):
            return
        if (self.created is None) != isinstance(line.event, RunCreated):
            raise Inconsistent("the first event, and no other, creates the run")
        starts = isinstance(line.event, RunStarted)
        if line.generation != self.generation + starts:
            raise Inconsistent(f"carries generation {line.generation} in generation {self.generation}")
        if self.is_final:
            raise Inconsistent("follows the end of the run")
        if self.finished is not None and not starts and not self._may_follow_an_end(line.event):
            raise Inconsistent("follows the end of its generation")
        if self.waiting is not None and not starts and not _may_follow_a_wait(line.event):
            raise Inconsistent("needs a cell, and the run waits without one")

    def _goes_on_as_usual(self, line: Line) -> bool:
        if not self.generations or line.generation != len(self.generations):
            return False
        current = self.generations[-1]
        return current.finished is None and current.waiting is None and isinstance(line.event, CallStarted | Outcome)

    def _may_follow_an_end(self, event: Event) -> bool:
        """What people decide, and the late end of a cell, are told between generations."""
        if isinstance(event, CallCompleted | CallFailed):
            return bool(self.decisions) and self.decisions[-1].of == event.of
        return isinstance(event, Decision | RunFinished | CellEnded)

    def _current(self, line: Line) -> Generation:
        if not self.generations:
            raise Inconsistent(f"{line.event.e} stands before the first generation")
        return self.generations[-1]

    def _end_cell(self, event: CellEnded) -> None:
        for generation in self.generations:
            if generation.cell is not None and generation.cell.cell == event.cell:
                generation.cell_end = event
                return
        raise Inconsistent(f"ends the cell {event.cell}, which was never started")

    def _decide(self, event: Decision) -> None:
        self.decisions.append(event)
        if self.generations:
            self.generations[-1].decisions.append(event)
        if event.what == "rerun":
            self._record(event.of).rerun = True

    def _start(self, line: Line, event: CallStarted) -> None:
        record = Record(line.seq, line.generation, line.at, event)
        self.records[line.seq] = record
        self.places.setdefault((event.key.scope, event.key.fn, event.key.n), []).append(record)
        self.starts.setdefault(line.generation, []).append(record)
        self.executions += event.counted and line.generation > 0

    def _end(self, line: Line, event: Outcome) -> None:
        record = self._record(event.of)
        if record.outcome is not None:
            raise Inconsistent(f"ends the call {event.of} a second time")
        record.outcome, record.ended_at, record.ended_seq = event, line.at, line.seq
        record.settled = any(decision.of == record.seq for decision in self.decisions)
        replies = event.facts.get("replies")
        if isinstance(replies, list):
            self.replies_used.update(index for index in replies if type(index) is int)

    def _record(self, of: int) -> Record:
        if of not in self.records:
            raise Inconsistent(f"is about the call {of}, which was never started")
        return self.records[of]


def _may_follow_a_wait(event: Event) -> bool:
    """What was begun may end, and people may decide; nothing begins."""
    return isinstance(
        event, CallCompleted | CallFailed | CallUnknown | CallDropped | Decision | RunFinished | CellEnded
    )
