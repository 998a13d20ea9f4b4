"""What becomes of a call when a run goes on: replay its record, execute it, or stop. Pure; docs/reference/journal.md tells the rules.

1. A completed record with this key is given back.
2. A failed one executes again if its CallError ended the program in some generation, or if its generation came to no end of
   the program and nothing shows that the failure was handled: no later call was started in its scope, an enclosing one, or in
   a dependency called from there. Otherwise the failure is raised again.
3. One without outcome executes again when that does no harm; otherwise a person decides. A question stays open until it is
   answered, and a call that the program stopped waiting for is not made again unless nothing else can go on.
4. Another record at the same place means that the pinned code asked something else this time: a divergence. No record there
   at all: the call is new and executes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from engine.run.calls import CallKey, Effects
from engine.run.events import CallFailed
from engine.run.history import History, Record
from engine.run.order import encloses, is_line_of


class OnUnknown(StrEnum):
    """What a person decided beforehand about calls of unknown outcome."""

    RERUN = "rerun"
    HALT = "halt"


class Why(StrEnum):
    """Why a call is executed."""

    NEW = "new"
    FAILED_BEFORE = "failed_before"
    UNKNOWN_BEFORE = "unknown_before"
    DIVERGENCE_ACCEPTED = "divergence_accepted"


@dataclass(frozen=True)
class Replay:
    """Give back the outcome of this record."""

    record: Record


@dataclass(frozen=True)
class Execute:
    """Execute the call."""

    why: Why


@dataclass(frozen=True)
class StillOpen:
    """This record is a question that nobody answered yet."""

    record: Record


@dataclass(frozen=True)
class Hold:
    """The program stopped waiting for this record before it had an outcome, and will again; executing it waits for that."""

    record: Record


@dataclass(frozen=True)
class AskPerson:
    """Stop: this record's outcome is unknown and executing again may do harm."""

    record: Record


@dataclass(frozen=True)
class Diverged:
    """Stop: this record stands where the call stands and had other arguments."""

    record: Record


Step = Replay | Execute | StillOpen | Hold | AskPerson | Diverged


def decide(
    history: History,
    key: CallKey,
    *,
    effects: Effects,
    on_unknown: OnUnknown | None = None,
    accept_divergence: bool = False,
) -> Step:
    """What to do with the call `key` in the current pass."""
    record = history.latest(key)
    if record is None:
        others = history.at(key)
        if not others:
            return Execute(Why.NEW)
        return Execute(Why.DIVERGENCE_ACCEPTED) if accept_divergence else Diverged(others[-1])
    if record.outcome is None:
        return _unknown(record, effects, on_unknown)
    if isinstance(record.outcome, CallFailed) and executes_again(history, record):
        return Execute(Why.FAILED_BEFORE)
    return Replay(record)


def _unknown(record: Record, effects: Effects, on_unknown: OnUnknown | None) -> Step:
    if record.is_question:
        return StillOpen(record)
    if record.dropped and not record.rerun:
        return Hold(record)
    return unknown(record, effects, on_unknown)


def unknown(record: Record, effects: Effects, on_unknown: OnUnknown | None) -> Execute | AskPerson:
    """What to do with a call whose last attempt nobody saw the end of, when it must go on."""
    if record.rerun or on_unknown is OnUnknown.RERUN:
        return Execute(Why.UNKNOWN_BEFORE)
    if on_unknown is OnUnknown.HALT or effects is Effects.SOME:
        return AskPerson(record)
    return Execute(Why.UNKNOWN_BEFORE)


def executes_again(history: History, record: Record) -> bool:
    """True for a failed record whose failure the program did not handle, as far as the journal shows."""
    later = history.generations[max(record.generation - 1, 0) :]
    told = [generation for generation in later if generation.told_of_the_program]
    if any(
        generation.finished and record.seq in (generation.finished.cause, *generation.finished.also)
        for generation in told
    ):
        return True
    if told or record.settled or record.generation == 0:
        return False
    return not any(
        other.seq > record.ended_seq and _shows_handling(other.key.scope, record.key.scope)
        for other in history.starts.get(record.generation, [])
    )


def _shows_handling(started: str, failed: str) -> bool:
    """True when code that starts a call in `started` can only get there once a failure in `failed` was handled.

    Dependencies run on the line of their caller, so a call in one of them counts like a call of the caller. Branches and tasks
    below the failure run beside it and show nothing.
    """
    return encloses(started, failed) or is_line_of(started, failed)


def unasked(history: History, asked: set[CallKey]) -> list[int]:
    """The `s` of completed records that a pass never asked for, in order."""
    found = []
    for records in history.places.values():
        for record in records:
            if record.outcome is not None and not isinstance(record.outcome, CallFailed) and record.key not in asked:
                found.append(record.seq)
    return sorted(found)
