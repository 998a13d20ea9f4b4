"""Cancelling a run in every state, from another process than its owner's, with scripted cells."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.run.calls import CallRequest
from engine.run.events import RunFinished
from engine.run.status import Status
from tests.helpers.cancelling import cancel_scripted, cancelled_at, check_cancelled
from tests.helpers.cells import Answers, ScriptedCells
from tests.helpers.chaos import Stage, Trial
from tests.helpers.crash_process import find_or_create
from tests.helpers.crash_programs import sequential
from tests.helpers.crash_server import CrashServer
from tests.helpers.ledger import Ledger
from tests.helpers.runs import Bench, StillClock
from tests.helpers.sandbox import wait_for

BUSY_S = 20.0
"""What a busy machine may take; the promise itself is tried with real cells."""

SLOW = {"ticks": True, "pause_s": 0.4}
FOREVER = {"ticks": True, "pause_s": 600}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with Ledger() as ledger, CrashServer() as server:
        yield Stage(tmp_path_factory.mktemp("home"), server, ledger)


def interrupted(stage: Stage, point: str = "effect.done", nth: int = 3) -> Trial:
    """A run whose owner was killed in its third call."""
    trial = stage.trial("sequential")
    assert trial.kill_at(point, nth)
    return trial


def test_a_run_that_was_never_started_is_cancelled(stage: Stage) -> None:
    trial = stage.trial("sequential")
    find_or_create(trial.job, StillClock())
    assert cancel_scripted(trial).status is Status.CANCELLED
    check_cancelled(trial)
    assert trial.executions() == []


@pytest.mark.parametrize(
    ("point", "nth"),
    [("claim.locked", 1), ("claim.named", 1), ("journal.durable", 2), ("cell.opening", 1), ("cell.delivered", 1)],
)
def test_cancelled_before_its_first_call_it_executes_nothing(stage: Stage, point: str, nth: int) -> None:
    trial = stage.trial("sequential")
    assert cancelled_at(trial, point, nth, **SLOW) < BUSY_S
    check_cancelled(trial)
    assert trial.executions() == []


@pytest.mark.parametrize("program", ["sequential", "branches"])
@pytest.mark.parametrize(
    ("point", "nth"),
    [("effect.before", 1), ("effect.done", 2), ("journal.written", 6), ("reply.before", 2), ("reply.sent", 2)],
)
def test_cancelled_at_a_call_it_ends_there(stage: Stage, program: str, point: str, nth: int) -> None:
    trial = stage.trial(program)
    assert cancelled_at(trial, point, nth, **SLOW) < BUSY_S
    check_cancelled(trial)


def test_cancelled_in_two_branches_that_would_take_for_ever_it_ends_both(stage: Stage) -> None:
    trial = stage.trial("branches")
    assert cancelled_at(trial, "effect.before", 2, **FOREVER) < BUSY_S
    check_cancelled(trial)
    assert trial.executions() == []
    assert sum(record.lost for record in trial.history().records.values()) == 2


@pytest.mark.parametrize("nth", [1, 2])
def test_cancelled_during_a_replay_it_goes_no_further(stage: Stage, nth: int) -> None:
    trial = interrupted(stage)
    assert cancelled_at(trial, "reply.before", nth, **SLOW) < BUSY_S
    check_cancelled(trial)
    assert len(trial.executions()) == 3


@pytest.mark.parametrize("point", ["run.created", "cell.opening", "effect.before", "reply.sent", "cell.finished"])
def test_an_interrupted_run_is_cancelled_where_it_stands(stage: Stage, point: str) -> None:
    trial = interrupted(stage, point, 1)
    executions = trial.executions()
    assert cancel_scripted(trial).status is Status.CANCELLED
    check_cancelled(trial)
    assert trial.executions() == executions


@pytest.mark.parametrize("point", ["gone.before", "gone.proven", "claim.named"])
def test_cancelled_between_two_generations_it_does_not_go_on(stage: Stage, point: str) -> None:
    trial = interrupted(stage)
    assert cancelled_at(trial, point, **SLOW) < BUSY_S
    check_cancelled(trial)
    assert len(trial.executions()) == 3


def test_cancelled_while_it_waits_without_a_cell_it_ends_what_it_waits_for(stage: Stage) -> None:
    trial = stage.trial("branches")
    trial.start(suspend_after_s=0.2, **FOREVER)
    wait_for(lambda: trial.exists and trial.view().status is Status.WAITING)
    assert cancel_scripted(trial).status is Status.CANCELLED
    assert stage.server.wait() == "ended"
    check_cancelled(trial)
    assert trial.executions() == []


@pytest.mark.parametrize("point", ["cell.finishing", "cell.finished", "journal.before", "journal.durable"])
def test_a_run_that_was_ending_stays_ended(stage: Stage, point: str) -> None:
    last = dict(stage.moments("sequential"))
    trial = stage.trial("sequential")
    assert cancelled_at(trial, point, last[point], ticks=True) < BUSY_S
    trial.check_end()
    assert not trial.run.cancel_path.exists()


def test_a_canceller_killed_at_any_moment_leaves_a_run_that_can_be_cancelled(stage: Stage) -> None:
    moments = interrupted(stage).moments(verb="cancel")
    assert len(moments) > 10
    for point, nth in moments:
        trial = interrupted(stage)
        assert trial.kill_at(point, nth, verb="cancel")
        assert cancel_scripted(trial).status is Status.CANCELLED
        check_cancelled(trial)


def test_a_run_whose_canceller_was_killed_is_cancelled_or_goes_on(stage: Stage) -> None:
    for point, nth in interrupted(stage).moments(verb="cancel"):
        trial = interrupted(stage)
        trial.kill_at(point, nth, verb="cancel")
        if trial.resume() == 0 and trial.view().status is not Status.CANCELLED:
            trial.to_the_end()
            trial.check_end()
        else:
            check_cancelled(trial)


def test_a_decision_of_a_process_that_is_killed_is_recorded_whole_or_not_at_all(stage: Stage) -> None:
    moments = interrupted(stage, nth=4).moments(verb="decide")
    assert len(moments) > 5
    for point, nth in moments:
        trial = interrupted(stage, nth=4)
        assert trial.kill_at(point, nth, verb="decide")
        trial.to_the_end()
        trial.check_end()


def test_what_a_handler_gives_after_the_run_was_cancelled_is_refused(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    run = bench.create()

    async def stubborn(request: CallRequest) -> str:
        run.cancel_path.write_text("{}")
        bench.clock.pass_by(1)
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            pass
        return "late"

    handlers = {"read": Answers(lambda request: "a", instant=True), "llm": Answers(stubborn)}
    assert bench.drive(run, ScriptedCells([sequential]), handlers).status is Status.CANCELLED
    journal, history = run.read()
    assert isinstance(journal.lines[-1].event, RunFinished)
    assert [(record.outcome, record.lost) for record in history.records.values() if record.key.fn == "llm"] == [
        (None, True)
    ]
