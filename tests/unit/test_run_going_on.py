"""How a run goes on beside what it still waits for: calls given up before, calls that outlive a cell, and failures in between."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.errors import EngineFailure, SandboxError, StorageFull
from engine.run.ahead import LEAST
from engine.run.calls import CallFailed, CallRequest
from engine.run.claim import Recorder
from engine.run.decisions import NoQuestion, answer, open_question
from engine.run.events import CallCompleted, Event, RunStarted
from engine.run.executing import AT_ONCE
from engine.run.folder import Run
from engine.run.generation import Limits
from engine.run.projection import view_of
from engine.run.status import Status
from engine.run.view import CallView, RunView, calls_of
from tests.helpers.cells import Answers, GiveUp, ScriptedCell, ScriptedCells, Step, Still, begin
from tests.helpers.runs import Bench

Playing = Generator[Step, Any, Any]
LEFT, MIDDLE, RIGHT = (f"/parallel@workflow.main[1.{i}]" for i in (1, 2, 3))
QUESTION = Answers(lambda request: None, kind="person")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def result(run: Run) -> Any:
    _, history = run.read()
    assert history.finished is not None
    return run.value(history.finished.result, history.finished.blob)


def call(view: RunView, fn: str) -> CallView:
    return next(found for found in calls_of(view.calls) if found.fn == fn)


# given up, and wanted after all


def fails_first() -> Playing:
    """A branch fails and the others are given up; where it does not fail, they are waited for."""
    yield begin("flaky", scope=LEFT)
    slow = yield begin("slow", scope=MIDDLE)
    question = yield begin("ask", scope=RIGHT, question="Go on?", schema={"type": "boolean"})
    _, value = yield Still()
    if isinstance(value, Exception):
        yield GiveUp(slow)
        yield GiveUp(question)
        raise value
    _, second = yield Still()
    _, third = yield Still()
    return [value, second, third]


def flaky() -> Answers:
    def fail_once(request: CallRequest) -> str:
        if len(answers.executed) == 1:
            raise CallFailed("ModelError", "an outage")
        return "fine"

    answers = Answers(fail_once)
    return answers


async def endless(request: CallRequest) -> None:
    await asyncio.Event().wait()


def failed_and_gone_on(bench: Bench) -> tuple[Run, RunView]:
    """A run whose first branch failed once, and that then waits for a person."""
    run, cells, unsteady = bench.create(), ScriptedCells([fails_first]), flaky()
    failed = bench.drive(run, cells, {"flaky": unsteady, "slow": Answers(endless), "ask": QUESTION})
    assert (failed.status, call(failed, "slow").status, call(failed, "ask").status) == (
        Status.FAILED,
        "dropped",
        "dropped",
    )
    with pytest.raises(NoQuestion):
        open_question(run)
    handlers = {"flaky": unsteady, "slow": Answers(lambda request: "slow"), "ask": QUESTION}

    async def within_a_minute() -> RunView:
        return await asyncio.wait_for(bench.drive_async(run, cells, handlers), 60)

    return run, asyncio.run(within_a_minute())


def test_a_call_that_was_given_up_is_executed_although_a_question_is_open(bench: Bench) -> None:
    run, view = failed_and_gone_on(bench)
    assert (view.status, view.reason) == (Status.WAITING, "person")
    assert (call(view, "slow").status, call(view, "slow").attempts) == ("completed", 2)
    answer(run, open_question(run), True)
    done = bench.drive(run, ScriptedCells([fails_first]), {"ask": QUESTION})
    assert (done.status, result(run)) == (Status.COMPLETED, ["fine", "slow", True])


def test_a_question_that_was_given_up_is_open_again_once_it_is_waited_for(bench: Bench) -> None:
    run, view = failed_and_gone_on(bench)
    assert call(view, "ask").status == call(view_of(run), "ask").status == "waiting"
    assert open_question(run) == call(view, "ask").seq


# a call that goes on over cells


def test_a_call_that_goes_on_is_not_begun_again_where_another_one_was_expected(bench: Bench) -> None:
    """A quick call overtook two slow ones that had no room, so that the second pass meets them before it."""

    def overtaken() -> Playing:
        for i in range(AT_ONCE):
            yield begin("work", scope=LEFT, i=i)
        for name in ("slower", "slow"):
            yield begin(name, scope=MIDDLE)
        yield begin("quick", scope=RIGHT)
        got = []
        for _ in range(AT_ONCE + 3):
            _, value = yield Still()
            got.append(value)
        return [len(got), *got[-2:]]

    wanted = asyncio.Event()

    async def work(request: CallRequest) -> str:
        while not quick.executed or (request.args["i"] == 0 and not slow.executed):  # one of them until both are begun
            await asyncio.sleep(0)
        return "worked"

    async def slow_one(request: CallRequest) -> str:
        await wanted.wait()
        return "slow"

    async def slower_one(request: CallRequest) -> str:
        while len(cells.opened) < 2 or not cells.opened[1].replies:
            await asyncio.sleep(0.01)
        return "slower"

    run, cells = bench.create(total_s=10_000.0), ScriptedCells([overtaken])
    slow, slower = Answers(slow_one), Answers(slower_one)
    quick = Answers(lambda request: "quick", instant=True)
    handlers = {"slow": slow, "slower": slower, "work": Answers(work), "quick": quick}
    assert AT_ONCE >= LEAST

    async def both() -> RunView:
        driving = asyncio.create_task(bench.drive_async(run, cells, handlers, limits=Limits(suspend_after_s=50)))
        async with asyncio.timeout(60):
            while view_of(run).status is not Status.WAITING:
                bench.clock.pass_by(100)
                await asyncio.sleep(0.01)
            wanted.set()
            return await driving

    view = asyncio.run(both())
    assert (view.status, result(run)) == (Status.COMPLETED, [AT_ONCE + 3, "slow", "slower"])
    assert (len(slow.executed), len(slower.executed)) == (1, 1)


# failures while it waits


def slow_and_slower() -> Playing:
    yield begin("slow", scope=LEFT)
    yield begin("slower", scope=RIGHT)
    _, first = yield Still()
    _, second = yield Still()
    return [first, second]


class Waiting:
    """A run that waits for two slow calls; `slow` ends when `bring_on` is set, `slower` never, and notes that it was ended."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.run = bench.create(total_s=10_000.0)
        self.cells = ScriptedCells([slow_and_slower])
        self.bring_on = asyncio.Event()
        self.ended: list[str] = []

    async def slow(self, request: CallRequest) -> str:
        self.bench.clock.pass_by(100)
        await self.bring_on.wait()
        return "slow"

    async def slower(self, request: CallRequest) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.append("slower")

    async def drive(self, then: Any) -> RunView:
        """Drive it; `then()` is called when it waits, before `slow` ends."""
        handlers = {"slow": Answers(self.slow), "slower": Answers(self.slower)}
        limits = Limits(suspend_after_s=50)
        driving = asyncio.create_task(self.bench.drive_async(self.run, self.cells, handlers, limits=limits))
        async with asyncio.timeout(60):
            while view_of(self.run).status is not Status.WAITING:
                self.bench.clock.pass_by(100)
                await asyncio.sleep(0.01)
            then()
            self.bring_on.set()
            return await driving


@pytest.mark.parametrize("refused", [CallCompleted, RunStarted])
def test_nothing_is_executed_any_more_when_a_waiting_run_cannot_be_recorded(
    refused: type[Event], bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = Waiting(bench)
    usual = Recorder.record

    def full(recorder: Recorder, *events: Event) -> Any:
        if isinstance(events[0], refused):
            raise StorageFull("no room")
        return usual(recorder, *events)

    async def both() -> None:
        with pytest.raises(StorageFull):
            await waiting.drive(lambda: monkeypatch.setattr(Recorder, "record", full))
        assert waiting.ended == ["slower"]

    asyncio.run(both())
    monkeypatch.undo()
    assert view_of(waiting.run).status in (Status.FAILED, Status.INTERRUPTED)


def test_nothing_is_executed_any_more_when_the_record_of_a_waiting_run_was_damaged(bench: Bench) -> None:
    waiting = Waiting(bench)

    def damage() -> None:
        data = waiting.run.journal_path.read_bytes()
        waiting.run.journal_path.write_bytes(data.replace(b'"slow"', b'"slaw"', 1))

    async def both() -> None:
        with pytest.raises(EngineFailure):
            await waiting.drive(damage)
        assert waiting.ended == ["slower"]

    asyncio.run(both())


def test_a_cell_that_was_left_is_proven_gone_before_a_waiting_run_goes_on(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = ScriptedCell.finish

    async def left(cell: ScriptedCell) -> Any:
        return replace(await usual(cell), left_behind=len(waiting.cells.opened) == 1)

    waiting = Waiting(bench)
    monkeypatch.setattr(ScriptedCell, "finish", left)
    proven: list[int] = []

    async def prove_gone(cell_id: str) -> None:
        assert cell_id == waiting.cells.opened[0].cell_id
        proven.append(len(waiting.cells.opened))
        raise SandboxError("the engine hangs", fix="Try again.")

    monkeypatch.setattr(bench, "prove_gone", prove_gone)

    async def both() -> None:
        with pytest.raises(SandboxError):
            await waiting.drive(lambda: None)
        assert waiting.ended == ["slower"]

    asyncio.run(both())
    assert proven == [1]
    assert len(view_of(waiting.run).generations) == 1
