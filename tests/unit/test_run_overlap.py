"""Calls that overlap: what is executed at once, in which order the program gets what, and how a run waits without a cell."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from engine.errors import UsageError
from engine.run import answers
from engine.run.calls import CallRequest, Effects
from engine.run.decisions import answer, cancel
from engine.run.events import CallDropped, RunWaiting
from engine.run.executing import AT_ONCE
from engine.run.folder import Run
from engine.run.generation import Limits
from engine.run.named import CallNotFound
from engine.run.status import Status
from engine.run.view import CallView, RunView, calls_of
from engine.sandbox.outcome import Cause
from tests.helpers.cells import Answers, Die, GiveUp, ScriptedCells, Step, Still, ask, begin
from tests.helpers.runs import Bench

Playing = Generator[Step, Any, Any]
LEFT, RIGHT = "/parallel@workflow.main[1.1]", "/parallel@workflow.main[1.2]"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def two_branches() -> Playing:
    """Returns the order in which the two answers came."""
    yield begin("llm", scope=LEFT, prompt="left")
    yield begin("llm", scope=RIGHT, prompt="right")
    _, first = yield Still()
    _, second = yield Still()
    return [first, second]


def in_order(*names: str) -> Answers:
    """Answers each prompt with itself, the prompts in the given order."""
    turn: dict[str, asyncio.Event] = {}

    async def wait_for_turn(request: CallRequest) -> str:
        for name in names:
            turn.setdefault(name, asyncio.Event())
        if not any(event.is_set() for event in turn.values()):
            turn[names[0]].set()
        name = request.args["prompt"]
        await turn[name].wait()
        place = names.index(name) + 1
        if place < len(names):
            turn[names[place]].set()
        return name

    return Answers(wait_for_turn)


def result(bench: Bench, run: Run) -> Any:
    _, history = run.read()
    assert history.finished is not None
    return run.value(history.finished.result, history.finished.blob)


def call(view: RunView, fn: str, n: int = 1) -> CallView:
    return next(found for found in calls_of(view.calls) if (found.fn, found.n) == (fn, n))


def kinds(run: Run) -> list[str]:
    return [line.event.e for line in run.read()[0].lines]


@pytest.mark.parametrize("order", [("left", "right"), ("right", "left")])
def test_a_program_gets_answers_in_the_order_in_which_they_came(order: tuple[str, str], bench: Bench) -> None:
    run = bench.create()
    view = bench.drive(run, ScriptedCells([two_branches]), {"llm": in_order(*order)})
    assert (view.status, result(bench, run)) == (Status.COMPLETED, list(order))


def test_a_replay_gives_the_answers_in_the_recorded_order_and_executes_nothing(bench: Bench) -> None:
    def dies_after_both() -> Playing:
        yield from two_branches()
        yield Die(Cause.SUPERVISOR_LOST)

    run = bench.create()
    first = in_order("right", "left")
    assert bench.drive(run, ScriptedCells([dies_after_both]), {"llm": first}).status is Status.FAILED
    again = Answers(lambda request: pytest.fail("executed again"))
    view = bench.drive(run, ScriptedCells([two_branches]), {"llm": again})
    assert (view.status, result(bench, run)) == (Status.COMPLETED, ["right", "left"])


def test_nothing_is_answered_while_the_program_is_busy(bench: Bench) -> None:
    def busy() -> Playing:
        number = yield begin("now")
        yield begin("now")
        replies = len(cells.opened[0].replies)
        _, _ = yield Still()
        _, _ = yield Still()
        return [number, replies]

    run, cells = bench.create(), ScriptedCells([busy])
    bench.drive(run, cells, {"now": Answers(lambda request: 1, instant=True)})
    assert result(bench, run) == [1, 0]


def test_one_answer_is_given_for_each_time_that_the_program_is_quiet(bench: Bench) -> None:
    def counts() -> Playing:
        for _ in range(5):
            yield begin("now")
        seen = []
        for _ in range(5):
            yield Still()
            seen.append(len(cells.opened[0].replies))
        return seen

    run, cells = bench.create(), ScriptedCells([counts])
    bench.drive(run, cells, {"now": Answers(lambda request: 1, instant=True)})
    assert result(bench, run) == [1, 2, 3, 4, 5]


def test_no_more_than_a_bounded_number_of_calls_is_executed_at_once(bench: Bench) -> None:
    total, running, most, full = 3 * AT_ONCE, 0, 0, asyncio.Event()

    async def work(request: CallRequest) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == AT_ONCE:
            full.set()
        await full.wait()
        running -= 1
        return int(request.args["i"])

    def many() -> Playing:
        for i in range(total):
            yield begin("llm", scope=f"/parallel@workflow.main[1.{i + 1}]", i=i)
        got = []
        for _ in range(total):
            _, value = yield Still()
            got.append(value)
        return sorted(got)

    run = bench.create(cap=total)
    view = bench.drive(run, ScriptedCells([many]), {"llm": Answers(work, counted=True)})
    assert (view.status, view.executions, most) == (Status.COMPLETED, total, AT_ONCE)
    assert result(bench, run) == list(range(total))


def test_a_call_that_waits_for_room_is_not_recorded_as_begun(bench: Bench) -> None:
    async def never(request: CallRequest) -> None:
        await asyncio.Event().wait()

    def many_and_die() -> Playing:
        for i in range(AT_ONCE + 4):
            yield begin("llm", i=i)
        yield Die(Cause.SUPERVISOR_LOST)

    run = bench.create()
    view = bench.drive(run, ScriptedCells([many_and_die]), {"llm": Answers(never)}, limits=Limits(let_finish_s=0.05))
    assert view.status is Status.FAILED
    assert kinds(run).count("call.started") == kinds(run).count("call.unknown") == AT_ONCE


def test_timers_take_no_place_among_the_calls_that_are_executed(bench: Bench) -> None:
    async def never(request: CallRequest) -> None:
        await asyncio.Event().wait()

    def guarded() -> Playing:
        for i in range(AT_ONCE + 1):
            yield begin("llm", i=i)
        yield begin("timer", delay_s=0.0)
        number, _ = yield Still()
        return number

    run = bench.create()
    bench.drive(
        run, ScriptedCells([guarded]), {"llm": Answers(never), "timer": Answers(lambda request: None, kind="timer")}
    )
    assert result(bench, run) == AT_ONCE + 2


def test_the_cap_counts_overlapping_calls(bench: Bench) -> None:
    def three() -> Playing:
        for i in range(3):
            yield begin("llm", i=i)
        yield Still()

    run = bench.create(cap=2)
    view = bench.drive(run, ScriptedCells([three]), {"llm": Answers(lambda request: 1, counted=True)})
    assert (view.status, view.executions) == (Status.CAPPED, 2)
    assert [found.status for found in calls_of(view.calls)] == ["completed", "completed"]


def given_up() -> Playing:
    """Waits for `quick` and gives `slow` up, as a timeout or a failed branch does."""
    slow = yield begin("slow")
    yield begin("quick")
    _, value = yield Still()
    yield GiveUp(slow)
    yield ask("after")
    return value


def stuck_and(ended: list[str]) -> Answers:
    async def wait(request: CallRequest) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("slow")

    return Answers(wait, effects=Effects.SOME)


def test_a_call_that_the_program_gives_up_is_ended_and_recorded_as_dropped(bench: Bench) -> None:
    ended: list[str] = []
    handlers = {
        "slow": stuck_and(ended),
        "quick": Answers(lambda request: "done"),
        "after": Answers(lambda request: list(ended)),
    }
    run = bench.create()
    view = bench.drive(run, ScriptedCells([given_up]), handlers)
    assert (view.status, result(bench, run), ended) == (Status.COMPLETED, "done", ["slow"])
    assert call(view, "slow").status == "dropped"
    assert any(isinstance(line.event, CallDropped) for line in run.read()[0].lines)


def test_a_replay_does_not_begin_again_what_the_program_gives_up_again(bench: Bench) -> None:
    def dies() -> Playing:
        yield from given_up()
        yield Die(Cause.SUPERVISOR_LOST)

    run, ended = bench.create(), list[str]()
    others = {"quick": Answers(lambda request: "done"), "after": Answers(lambda request: 1)}
    bench.drive(run, ScriptedCells([dies]), {"slow": stuck_and(ended), **others})
    view = bench.drive(run, ScriptedCells([given_up]), {"slow": Answers(lambda r: pytest.fail("begun")), **others})
    assert view.status is Status.COMPLETED
    assert kinds(run).count("call.dropped") == 1


def test_what_was_given_up_before_is_executed_when_nothing_else_can_go_on(bench: Bench) -> None:
    def dies() -> Playing:
        yield from given_up()
        yield Die(Cause.SUPERVISOR_LOST)

    def insists() -> Playing:
        slow = yield begin("slow")
        yield begin("quick")
        yield Still()
        number, value = yield Still()
        return [number == slow, value]

    run = bench.create()
    others = {"quick": Answers(lambda request: "done"), "after": Answers(lambda request: 1)}
    bench.drive(run, ScriptedCells([dies]), {"slow": stuck_and([]), **others})
    stopped = bench.drive(run, ScriptedCells([insists]), {"slow": Answers(lambda r: 5, effects=Effects.SOME), **others})
    assert (stopped.status, stopped.reason) == (Status.INTERRUPTED, "unknown_outcome")
    run = bench.create(run_id="20261130T120000Z-00000002")
    bench.drive(run, ScriptedCells([dies]), {"slow": stuck_and([]), **others})
    bench.drive(run, ScriptedCells([insists]), {"slow": Answers(lambda request: 5), **others})
    assert result(bench, run) == [True, 5]


def test_a_failure_is_handled_only_when_a_later_call_stands_on_its_line(bench: Bench) -> None:
    def fails(request: CallRequest) -> Any:
        if request.args["prompt"] == "left" and len(flaky.executed) == 1:
            raise ValueError("handlers fail by CallFailed")
        return request.args["prompt"]

    flaky = Answers(fails)
    from engine.run.calls import CallFailed

    def fails_properly(request: CallRequest) -> Any:
        try:
            return fails(request)
        except ValueError as error:
            raise CallFailed("ModelError", str(error)) from error

    flaky.answer = fails_properly

    def sibling_goes_on() -> Playing:
        yield begin("llm", scope=LEFT, prompt="left")
        yield begin("llm", scope=RIGHT, prompt="right")
        yield Still()
        yield Still()
        yield begin("llm", scope=RIGHT, prompt="right again")
        yield Still()
        yield Die(Cause.SUPERVISOR_LOST)

    def both() -> Playing:
        yield begin("llm", scope=LEFT, prompt="left")
        yield begin("llm", scope=RIGHT, prompt="right")
        _, one = yield Still()
        _, other = yield Still()
        return sorted([str(one), str(other)])

    run = bench.create()
    bench.drive(run, ScriptedCells([sibling_goes_on]), {"llm": flaky})
    # The generation has an end, but none of the program: only what is on the line of the failure counts.
    bench.drive(run, ScriptedCells([both]), {"llm": flaky})
    assert result(bench, run) == ["left", "right"]


# waiting


def slow_then_quick() -> Playing:
    got = yield ask("slow")
    told = yield ask("quick")
    return [got, told]


def test_a_run_waits_for_a_slow_call_without_a_cell_and_goes_on_with_its_outcome(bench: Bench) -> None:
    run, cells = bench.create(total_s=10_000.0), ScriptedCells([slow_then_quick])
    alive: list[int] = []

    async def until_the_run_waits(request: CallRequest) -> str:
        bench.clock.pass_by(200)
        while bench_status(run) is not Status.WAITING:
            await asyncio.sleep(0.01)
        alive.append(len(cells.opened) - len(cells.left))
        return "at last"

    slow = Answers(until_the_run_waits, effects=Effects.SOME)
    view = bench.drive(run, cells, {"slow": slow, "quick": Answers(lambda r: 2)}, limits=Limits(suspend_after_s=150))
    assert (view.status, result(bench, run)) == (Status.COMPLETED, ["at last", 2])
    assert (len(slow.executed), len(cells.opened), alive) == (1, 2, [0])
    waiting = [line.event for line in run.read()[0].lines if isinstance(line.event, RunWaiting)]
    assert [(event.reason, len(event.calls)) for event in waiting] == [("slow", 1)]
    assert [generation.status for generation in view.generations] == [Status.WAITING, Status.COMPLETED]
    assert call(view, "slow").attempts == 1


def test_a_cell_does_not_end_while_another_branch_is_quick(bench: Bench) -> None:
    def one_slow() -> Playing:
        yield begin("slow", scope=LEFT)
        for _ in range(8):
            yield begin("quick", scope=RIGHT)
            _, value = yield Still()
            if value == "at last":
                return value
        return None

    async def over_three_looks(request: CallRequest) -> str:
        for _ in range(3):
            bench.clock.pass_by(100)
            await asyncio.sleep(0.3)
        return "at last"

    async def while_it_lasts(request: CallRequest) -> int:
        await asyncio.sleep(0.2)
        return 1

    run, cells = bench.create(total_s=10_000.0), ScriptedCells([one_slow])
    handlers = {"slow": Answers(over_three_looks, effects=Effects.SOME), "quick": Answers(while_it_lasts)}
    bench.drive(run, cells, handlers, limits=Limits(suspend_after_s=250))
    assert (result(bench, run), len(cells.opened)) == ("at last", 1)


def test_cancelling_a_run_that_waits_ends_what_it_waits_for(bench: Bench) -> None:
    ended: list[str] = []
    run, cells = bench.create(total_s=10_000.0), ScriptedCells([slow_then_quick])

    async def endless(request: CallRequest) -> None:
        try:
            bench.clock.pass_by(100)
            await asyncio.Event().wait()
        finally:
            ended.append("slow")

    async def both() -> RunView:
        driving = asyncio.create_task(
            bench.drive_async(run, cells, {"slow": Answers(endless)}, limits=Limits(suspend_after_s=50))
        )
        while bench_status(run) is not Status.WAITING:
            await asyncio.sleep(0.01)
        await cancel(run, by="somebody", prove_gone=bench.prove_gone)
        return await driving

    view = asyncio.run(both())
    assert (view.status, ended) == (Status.CANCELLED, ["slow"])
    assert call(view, "slow").status == "unknown"


def bench_status(run: Run) -> Status:
    from engine.run.projection import view_of

    return view_of(run).status


def test_interrupting_a_run_that_waits_is_recorded(bench: Bench) -> None:
    run, cells = bench.create(total_s=10_000.0), ScriptedCells([slow_then_quick])

    async def endless(request: CallRequest) -> None:
        bench.clock.pass_by(100)
        await asyncio.Event().wait()

    async def interrupted() -> None:
        driving = asyncio.create_task(
            bench.drive_async(run, cells, {"slow": Answers(endless)}, limits=Limits(suspend_after_s=50))
        )
        while bench_status(run) is not Status.WAITING:
            await asyncio.sleep(0.01)
        driving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await driving

    asyncio.run(interrupted())
    assert bench_status(run) is Status.INTERRUPTED
    view = bench.drive(run, cells, {"slow": Answers(lambda r: 1), "quick": Answers(lambda r: 2)})
    assert (view.status, result(bench, run)) == (Status.COMPLETED, [1, 2])


def asks_a_person() -> Playing:
    said = yield ask("ask", question="Go on?", schema={"type": "boolean"})
    done = yield ask("quick")
    return [said, done]


QUESTION = Answers(lambda request: None, kind="person", effects=Effects.NONE)


def test_a_run_waits_for_a_person_without_a_cell_and_goes_on_with_the_answer(bench: Bench) -> None:
    run, cells = bench.create(), ScriptedCells([asks_a_person])
    handlers = {"ask": QUESTION, "quick": Answers(lambda request: 2)}
    view = bench.drive(run, cells, handlers)
    assert (view.status, view.reason, cells.left) == (Status.WAITING, "person", [cells.opened[0].cell_id])
    question = call(view, "ask")
    assert question.status == "waiting"
    again = bench.drive(run, cells, handlers)
    assert (again.status, call(again, "ask").seq, call(again, "ask").attempts) == (Status.WAITING, question.seq, 1)
    answer(run, question.seq, True, by="somebody")
    done = bench.drive(run, cells, handlers)
    assert (done.status, result(bench, run)) == (Status.COMPLETED, [True, 2])


def test_an_answer_that_is_refused_changes_nothing(bench: Bench) -> None:
    def refuse(arguments: Any, value: Any) -> Any:
        raise UsageError("not that")

    run = bench.create()
    view = bench.drive(run, ScriptedCells([asks_a_person]), {"ask": QUESTION})
    before = kinds(run)
    with pytest.raises(UsageError):
        answer(run, call(view, "ask").seq, 7, check=refuse)
    with pytest.raises(CallNotFound):
        answer(run, 1, True)
    assert kinds(run) == before


def asks_beside_slow() -> Playing:
    yield begin("ask", scope=LEFT, question="?", schema={})
    yield begin("slow", scope=RIGHT)
    _, first = yield Still()
    _, second = yield Still()
    return [first, second]


@pytest.mark.parametrize("suspend_after_s", [0.05, 1000.0])
def test_a_question_is_answered_while_something_slow_goes_on_beside_it(suspend_after_s: float, bench: Bench) -> None:
    run, released = bench.create(total_s=1e6), asyncio.Event()

    async def slow(request: CallRequest) -> str:
        bench.clock.pass_by(10)
        await released.wait()
        return "at last"

    async def driven() -> RunView:
        handlers = {"ask": QUESTION, "slow": Answers(slow)}
        limits = Limits(suspend_after_s=suspend_after_s)
        driving = asyncio.create_task(
            bench.drive_async(run, ScriptedCells([asks_beside_slow]), handlers, limits=limits)
        )
        while not (found := [record.seq for record in run.read()[1].open_questions()]):
            await asyncio.sleep(0.01)
        if suspend_after_s < 1:
            while bench_status(run) is not Status.WAITING:
                await asyncio.sleep(0.01)
        assert answer(run, found[0], "yes", by="ada") is False
        while run.read()[1].open_questions():
            await asyncio.sleep(0.01)
            bench.clock.pass_by(0.2)
        released.set()
        return await driving

    view = asyncio.run(driven())
    assert (view.status, result(bench, run)) == (Status.COMPLETED, ["yes", "at last"])
    assert [decision.by for decision in run.read()[1].decisions] == ["ada"]
    assert not list(run.folder.glob("answer.*"))


def test_an_answer_that_its_owner_did_not_live_to_record_is_taken_by_the_next(bench: Bench) -> None:
    run = bench.create()
    handlers = {"ask": QUESTION, "quick": Answers(lambda request: 2)}
    view = bench.drive(run, ScriptedCells([asks_a_person]), handlers)
    answers.leave(run, call(view, "ask").seq, True, by="ada")
    done = bench.drive(run, ScriptedCells([asks_a_person]), handlers)
    assert (done.status, result(bench, run)) == (Status.COMPLETED, [True, 2])


@pytest.mark.parametrize("left", [b"", b"{", b"[]", b'{"by":"ada"}', b'{"by":"ada","value":{"$set":[2,1]}}'])
def test_what_no_answer_command_left_is_removed_and_answers_nothing(left: bytes, bench: Bench) -> None:
    run = bench.create()
    view = bench.drive(run, ScriptedCells([asks_a_person]), {"ask": QUESTION})
    (run.folder / f"answer.{call(view, 'ask').seq}").write_bytes(left)
    again = bench.drive(run, ScriptedCells([asks_a_person]), {"ask": QUESTION})
    assert (again.status, call(again, "ask").status) == (Status.WAITING, "waiting")
    assert not list(run.folder.glob("answer.*"))


def test_a_question_is_no_unknown_call(bench: Bench) -> None:
    def asks_beside_work() -> Playing:
        yield begin("ask", scope=LEFT, question="?", schema={})
        yield begin("quick", scope=RIGHT)
        yield Still()
        yield Die(Cause.SUPERVISOR_LOST)

    run = bench.create()
    view = bench.drive(run, ScriptedCells([asks_beside_work]), {"ask": QUESTION, "quick": Answers(lambda r: 1)})
    assert (view.status, call(view, "ask").status) == (Status.FAILED, "waiting")
    assert "call.unknown" not in kinds(run)


def test_an_execution_that_does_not_heed_its_cancellation_holds_nobody_up(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.run.executing.GONE_S", 0.05)
    released = asyncio.Event()

    async def deaf(request: CallRequest) -> None:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue

    def asks_and_dies() -> Playing:
        yield begin("deaf")
        yield Die(Cause.SUPERVISOR_LOST)

    async def driven() -> RunView:
        try:
            limits = Limits(let_finish_s=0.05)
            return await bench.drive_async(run, ScriptedCells([asks_and_dies]), {"deaf": Answers(deaf)}, limits=limits)
        finally:
            released.set()

    run = bench.create()
    view = asyncio.run(driven())
    assert (view.reason, call(view, "deaf").status) == ("sandbox", "unknown")
