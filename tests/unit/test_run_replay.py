"""Replay decisions from event lists alone."""

from __future__ import annotations

from typing import Any

import pytest

from engine.run.calls import CallKey, Effects
from engine.run.divergence import compare
from engine.run.events import (
    FIRST_HASH,
    FORMAT,
    CallCompleted,
    CallFailed,
    CallStarted,
    CallUnknown,
    CellStarted,
    Decision,
    Event,
    Line,
    RunCreated,
    RunFinished,
    RunStarted,
)
from engine.run.history import History, Inconsistent
from engine.run.replay import AskPerson, Diverged, Execute, OnUnknown, Replay, Step, Why, decide, unasked
from engine.run.status import Status


def key(fn: str = "llm", n: int = 1, *, scope: str = "/", digest: str = "a") -> CallKey:
    return CallKey(scope, fn, n, digest * 64)


def started(of: CallKey) -> CallStarted:
    return CallStarted(key=of, args={})


def failed(of: int) -> CallFailed:
    return CallFailed(of=of, type="ModelError", message="no")


def program_raised(cause: int = 0) -> RunFinished:
    return RunFinished(status=Status.FAILED, reason="program", cause=cause)


def ended(status: Status, reason: str) -> RunFinished:
    return RunFinished(status=status, reason=reason)


def history(*generations: list[Event]) -> History:
    """A journal: `s` 1 creates the run, 2 begins the first generation, and so on without gaps."""
    events: list[tuple[int, Event]] = [(0, RunCreated(format=FORMAT, run="r", spec="s"))]
    for number, generation in enumerate(generations, start=1):
        events.append((number, RunStarted(pid=1, host="h")))
        events += [(number, event) for event in generation]
    found = History()
    for seq, (g, event) in enumerate(events, start=1):
        found.apply(Line(seq, float(seq), g, event, FIRST_HASH))
    return found


def step(found: History, asked: CallKey, **options: Any) -> Step:
    return decide(found, asked, **{"effects": Effects.NONE, **options})


def test_a_call_without_a_record_executes() -> None:
    assert step(history([]), key()) == Execute(Why.NEW)


def test_a_completed_record_is_given_back() -> None:
    found = history([started(key()), CallCompleted(of=3, result=1)], [])
    assert step(found, key()) == Replay(found.records[3])


def test_an_unencodable_result_is_given_back_and_not_executed_again() -> None:
    found = history([started(key()), CallCompleted(of=3, unencodable="no")], [])
    assert step(found, key()) == Replay(found.records[3])


@pytest.mark.parametrize(
    ("generation", "again"),
    [
        pytest.param([started(key()), failed(3), program_raised(cause=3)], True, id="its error left the entry"),
        pytest.param([started(key()), failed(3), program_raised()], False, id="another error left the entry"),
        pytest.param([started(key()), failed(3)], True, id="died right after"),
        pytest.param([started(key()), failed(3), started(key(n=2))], False, id="died in a later call"),
        pytest.param([started(key()), failed(3), ended(Status.INTERRUPTED, "stopped")], True, id="interrupted after"),
        pytest.param([started(key()), failed(3), ended(Status.FAILED, "deadline")], True, id="deadline after"),
        pytest.param([started(key()), failed(3), ended(Status.FAILED, "sandbox")], True, id="sandbox failed after"),
        pytest.param(
            [started(key()), failed(3), started(key(n=2)), ended(Status.CAPPED, "capped")], False, id="capped later"
        ),
    ],
)
def test_a_failed_record_executes_again_unless_its_failure_was_handled(generation: list[Event], again: bool) -> None:
    found = history(generation, [])
    assert step(found, key()) == (Execute(Why.FAILED_BEFORE) if again else Replay(found.records[3]))


@pytest.mark.parametrize(
    ("failed_in", "started_in", "handled"),
    [
        ("/", "/", True),
        ("/a[1]", "/a[1]", True),
        ("/a[1]", "/", True),
        ("/a[1]/b[1]", "/a[1]", True),
        ("/", "/a[1]", True),
        ("/a[1]", "/a[1]/b[1]", True),
        ("/a[1]", "/b[1]", False),
        ("/a[1]", "/a[12]", False),
        ("/a[1]", "/a[2]", False),
    ],
)
def test_a_later_call_shows_that_a_failure_was_handled_only_where_code_goes_on_behind_it(
    failed_in: str, started_in: str, handled: bool
) -> None:
    one, other = key(scope=failed_in), key("agent", scope=started_in)
    found = history([started(one), failed(3), started(other)], [])
    assert step(found, one) == (Replay(found.records[3]) if handled else Execute(Why.FAILED_BEFORE))


def test_a_failure_that_ended_the_program_in_a_later_generation_executes_again() -> None:
    found = history([started(key()), failed(3), started(key(n=2))], [program_raised(cause=3)], [])
    assert step(found, key()) == Execute(Why.FAILED_BEFORE)


def test_a_failure_that_a_later_generation_handled_stays_handled() -> None:
    found = history([started(key()), failed(3)], [started(key()), failed(6), program_raised()], [])
    assert step(found, key()) == Replay(found.records[6])


def test_the_last_record_of_a_key_counts() -> None:
    found = history(
        [started(key()), failed(3), program_raised(cause=3)], [started(key()), CallCompleted(of=7, result=2)], []
    )
    assert step(found, key()) == Replay(found.records[7])


@pytest.mark.parametrize(
    ("effects", "on_unknown", "executes"),
    [
        (Effects.NONE, None, True),
        (Effects.IDEMPOTENT, None, True),
        (Effects.SOME, None, False),
        (Effects.NONE, OnUnknown.RERUN, True),
        (Effects.IDEMPOTENT, OnUnknown.RERUN, True),
        (Effects.SOME, OnUnknown.RERUN, True),
        (Effects.NONE, OnUnknown.HALT, False),
        (Effects.IDEMPOTENT, OnUnknown.HALT, False),
        (Effects.SOME, OnUnknown.HALT, False),
    ],
)
@pytest.mark.parametrize("noted", [False, True])
def test_an_unknown_outcome_executes_again_where_that_does_no_harm_or_a_person_said_so(
    effects: Effects, on_unknown: OnUnknown | None, executes: bool, noted: bool
) -> None:
    found = history([started(key()), *([CallUnknown(of=3)] if noted else [])], [])
    expected = Execute(Why.UNKNOWN_BEFORE) if executes else AskPerson(found.records[3])
    assert step(found, key(), effects=effects, on_unknown=on_unknown) == expected


def test_a_decision_to_rerun_covers_one_attempt() -> None:
    first = [started(key()), CallUnknown(of=3)]
    found = history(first, [Decision(what="rerun", of=3)])
    assert step(found, key(), effects=Effects.SOME) == Execute(Why.UNKNOWN_BEFORE)
    found = history(first, [Decision(what="rerun", of=3), started(key())], [])
    assert step(found, key(), effects=Effects.SOME) == AskPerson(found.records[7])


def test_a_persons_value_for_an_unknown_outcome_is_given_back() -> None:
    decided: list[Event] = [Decision(what="value", of=3), CallCompleted(of=3, result=5)]
    found = history([started(key()), CallUnknown(of=3)], decided)
    assert step(found, key(), effects=Effects.SOME) == Replay(found.records[3])


def test_what_a_person_called_failed_is_raised_and_not_executed() -> None:
    decided: list[Event] = [Decision(what="treat-as-failed", of=3), failed(3)]
    found = history([started(key()), CallUnknown(of=3), ended(Status.INTERRUPTED, "unknown_outcome"), *decided], [])
    assert step(found, key(), effects=Effects.SOME) == Replay(found.records[3])


@pytest.mark.parametrize("outcome", [[], [CallCompleted(of=3, result=1)], [failed(3)]])
def test_other_arguments_at_the_same_place_diverge_whatever_the_outcome(outcome: list[Event]) -> None:
    found = history([started(key()), *outcome], [])
    assert step(found, key(digest="b")) == Diverged(found.records[3])


def test_an_accepted_divergence_executes_and_its_record_replays_afterwards() -> None:
    first: list[Event] = [started(key()), CallCompleted(of=3, result=1)]
    assert step(history(first, []), key(digest="b"), accept_divergence=True) == Execute(Why.DIVERGENCE_ACCEPTED)
    found = history(first, [started(key(digest="b")), CallCompleted(of=6, result=2)], [])
    assert step(found, key(digest="b")) == Replay(found.records[6])


@pytest.mark.parametrize("asked", [key("agent"), key(n=2), key(scope="/a[1]", digest="b")])
def test_another_function_number_or_scope_is_another_place(asked: CallKey) -> None:
    found = history([started(key()), CallCompleted(of=3, result=1)], [])
    assert step(found, asked) == Execute(Why.NEW)


def test_completed_records_that_were_never_asked_for_are_listed() -> None:
    found = history([started(key()), CallCompleted(of=3, result=1), started(key(n=2)), failed(5)], [])
    assert unasked(found, set()) == [3]
    assert unasked(found, {key()}) == []


@pytest.mark.parametrize(
    ("generations", "problem"),
    [
        ([[CallCompleted(of=9, result=1)]], "never started"),
        ([[started(key()), failed(3), failed(3)]], "second time"),
        ([[ended(Status.CANCELLED, "cancelled")], []], "follows the end of the run"),
        ([[RunFinished(status=Status.COMPLETED, result=None), started(key())]], "follows the end of the run"),
        ([[program_raised(), started(key())]], "follows the end of its generation"),
        ([[RunCreated(format=1, run="r", spec="s")]], "creates the run"),
    ],
)
def test_events_that_cannot_follow_each_other_are_refused(generations: list[list[Event]], problem: str) -> None:
    with pytest.raises(Inconsistent, match=problem):
        history(*generations)


@pytest.mark.parametrize(
    ("recorded", "asked", "where", "cause"),
    [
        ({"names": ["b", "a"]}, {"names": ["a", "b"]}, "$.names", "order of a set"),
        ({"prompt": "on a, b"}, {"prompt": "on b, a"}, "$.prompt", "order of a set"),
        ({"p": "<X at 0x7f00aa11bb22>"}, {"p": "<X at 0x7f00aa11cc33>"}, "$.p", "repr of an object"),
        ({"p": "at 2026-11-30 12:00"}, {"p": "at 2026-11-30 12:01"}, "$.p", "environment"),
        ({"p": "/tmp/a1"}, {"p": "/tmp/b2"}, "$.p", "environment"),
        ({"p": {"q": [1, 2]}}, {"p": {"q": [1, 3]}}, "$.p.q[1]", "not known"),
        ({"p": 1}, {"q": 1}, "$", "not known"),
    ],
)
def test_a_divergence_says_where_and_guesses_why(recorded: Any, asked: Any, where: str, cause: str) -> None:
    found = compare(key(), recorded=recorded, asked=asked, recorded_site="workflow.py:3", site="workflow.py:4")
    assert (found.where, cause in found.cause) == (where, True)
    assert "workflow.py:4" in str(found)
    assert found.recorded in str(found)
    assert found.asked in str(found)


def test_an_event_of_an_earlier_generation_is_refused() -> None:
    found = history([started(key())], [])
    with pytest.raises(Inconsistent, match="carries generation 1 in generation 2"):
        found.apply(Line(5, 5.0, 1, CallCompleted(of=3, result=1), FIRST_HASH))


def test_a_clock_that_jumps_under_a_generation_that_dies_uses_up_no_time() -> None:
    history = History(gap_most_s=3600.0)
    year = 31_536_000.0
    at = [0.0, 10.0, 12.0, 12.0 + 10 * year, 15.0 + 10 * year]
    key = CallKey("/", "llm", 1, "d" * 64)
    events: list[Event] = [
        RunCreated(format=FORMAT, run="r", spec="s"),
        RunStarted(pid=1, host="h"),
        CallStarted(key=key, args={}),
        CallCompleted(of=3, result=1),
        CellStarted(cell="c"),
    ]
    for number, (moment, event) in enumerate(zip(at, events, strict=True), start=1):
        history.apply(Line(number, moment, int(number > 1), event, ""))
    assert history.generations[0].active_s == 5.0
