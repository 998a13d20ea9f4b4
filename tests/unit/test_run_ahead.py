"""Answers that are sent before their calls: the same replay without asking, and nothing lost when the program does otherwise."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.run.ahead import LEAST, WINDOW
from engine.run.calls import CallRequest
from engine.run.folder import Run
from engine.run.status import Status
from engine.sandbox.outcome import Cause
from tests.helpers.cells import Answers, Die, GiveUp, Program, ScriptedCells, Step, Still, ask, begin
from tests.helpers.runs import Bench

Playing = Generator[Step, Any, Any]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def result(run: Run) -> Any:
    _, history = run.read()
    assert history.finished is not None
    return run.value(history.finished.result, history.finished.blob)


def counting(calls: int, *, dies: bool = False, odd: int = 0, more: int = 0) -> Program:
    """Makes `calls` calls one after the other; the one with number `odd` asks something else than usual."""

    def program() -> Playing:
        total = 0
        for i in range(1, calls + 1):
            total += yield ask("twice", i=-i if i == odd else i)
        if dies:
            yield Die(Cause.SUPERVISOR_LOST)
        for i in range(more):
            total += yield ask("twice", i=i)
        return total

    return program


TWICE = {"twice": Answers(lambda request: 2 * request.args["i"], instant=True)}


def never(request: CallRequest) -> Any:
    raise AssertionError(f"{request.key} was executed again")


@pytest.mark.parametrize("calls", [LEAST, WINDOW, 3 * WINDOW + 1])
def test_a_replay_asks_for_nothing(calls: int, bench: Bench) -> None:
    run = bench.create()
    bench.drive(run, ScriptedCells([counting(calls, dies=True)]), TWICE)
    cells = ScriptedCells([counting(calls)])
    view = bench.drive(run, cells, {"twice": Answers(never, instant=True)})
    assert (view.status, result(run)) == (Status.COMPLETED, calls * (calls + 1))
    assert (cells.opened[0].replies, cells.opened[0].taken_ahead) == ([], calls)


def test_what_comes_after_the_records_is_executed(bench: Bench) -> None:
    run = bench.create()
    bench.drive(run, ScriptedCells([counting(50, dies=True)]), TWICE)
    cells = ScriptedCells([counting(50, more=3)])
    view = bench.drive(run, cells, TWICE)
    assert (view.status, result(run)) == (Status.COMPLETED, 50 * 51 + 6)
    assert (len(cells.opened[0].replies), cells.opened[0].taken_ahead) == (3, 50)


def test_a_divergence_is_found_at_its_call(bench: Bench) -> None:
    run = bench.create()
    bench.drive(run, ScriptedCells([counting(400, dies=True)]), TWICE)
    view = bench.drive(run, ScriptedCells([counting(400, odd=123)]), {"twice": Answers(never, instant=True)})
    assert (view.status, view.reason) == (Status.FAILED, "diverged")
    assert view.error is not None
    assert "number 123" in view.error.message


def test_a_divergence_that_is_accepted_executes_one_call_and_replays_the_others(bench: Bench) -> None:
    from engine.run.generation import Choices

    run = bench.create()
    bench.drive(run, ScriptedCells([counting(100, dies=True)]), TWICE)
    twice = Answers(lambda request: 2 * request.args["i"], instant=True)
    view = bench.drive(
        run, ScriptedCells([counting(100, odd=40)]), {"twice": twice}, choices=Choices(accept_divergence=True)
    )
    assert (view.status, result(run)) == (Status.COMPLETED, 100 * 101 - 160)
    assert [request.args for request in twice.executed] == [{"i": -40}]


def test_a_program_that_stops_early_leaves_what_was_sent(bench: Bench) -> None:
    run = bench.create()
    bench.drive(run, ScriptedCells([counting(30, dies=True)]), TWICE)
    view = bench.drive(run, ScriptedCells([counting(10)]), TWICE)
    assert (view.status, result(run), len(view.unasked)) == (Status.COMPLETED, 110, 20)


def test_large_values_are_not_sent_unasked(bench: Bench) -> None:
    def reads() -> Playing:
        for i in range(20):
            yield ask("read", i=i)
        yield Die(Cause.SUPERVISOR_LOST)

    def reads_again() -> Playing:
        sizes = []
        for i in range(20):
            sizes.append(len((yield ask("read", i=i))))
        return sizes

    def text(request: CallRequest) -> str:
        return "x" * (1_000_000 if request.args["i"] == 15 else 10)

    run = bench.create()
    bench.drive(run, ScriptedCells([reads]), {"read": Answers(text, instant=True)})
    cells = ScriptedCells([reads_again])
    view = bench.drive(run, cells, {"read": Answers(never, instant=True)})
    assert (view.status, result(run)[14:17]) == (Status.COMPLETED, [10, 1_000_000, 10])
    assert cells.opened[0].taken_ahead == 15


def test_a_program_that_asks_otherwise_and_never_waits_has_diverged_all_the_same(bench: Bench) -> None:
    def hurries() -> Playing:
        for i in range(1, 21):
            yield begin("twice", i=-i)
        return "done"

    run = bench.create()
    bench.drive(run, ScriptedCells([counting(20, dies=True)]), TWICE)
    view = bench.drive(run, ScriptedCells([hurries]), TWICE)
    assert (view.status, view.reason) == (Status.FAILED, "diverged")


def test_a_program_that_asks_otherwise_without_end_and_never_waits_is_ended(bench: Bench) -> None:
    def floods() -> Playing:
        for i in range(1, 1500):
            yield begin("twice", i=-i)
        yield Still()

    run = bench.create()
    bench.drive(run, ScriptedCells([counting(1500, dies=True)]), TWICE)
    view = bench.drive(run, ScriptedCells([floods]), TWICE)
    assert (view.status, view.reason) == (Status.FAILED, "message")
    assert view.error is not None
    assert view.error.type == "call.too_many"


class Branches:
    """Some branches of some calls each, which see in which order they are answered; one of them may be given up on the way."""

    def __init__(self, lengths: list[int], *, gives_up: bool, stops_after: int | None) -> None:
        self.seen: list[tuple[int, int]] = []
        self._lengths = lengths
        self._gives_up = gives_up
        self._stops_after = stops_after

    def program(self) -> Playing:
        self.seen.clear()
        owner: dict[int, tuple[int, int]] = {}
        for branch in range(len(self._lengths)):
            owner[(yield self._next(branch, 0))] = (branch, 0)
        while owner:
            if self._stops_after is not None and len(self.seen) >= self._stops_after:
                yield Die(Cause.SUPERVISOR_LOST)
            number, _ = yield Still()
            branch, step = owner.pop(number)
            self.seen.append((branch, step))
            if step + 1 < self._lengths[branch]:
                owner[(yield self._next(branch, step + 1))] = (branch, step + 1)
            if self._gives_up and len(self.seen) == 5 and owner:
                first = min(owner)
                del owner[first]
                yield GiveUp(first)
        if self._stops_after is not None:
            yield Die(Cause.SUPERVISOR_LOST)
        return [list(item) for item in self.seen]

    def _next(self, branch: int, step: int) -> Step:
        # The arguments hold what was seen so far: another order would diverge.
        return begin(
            "work", scope=f"/parallel@workflow.main[1.{branch + 1}]", branch=branch, step=step, seen=len(self.seen)
        )


def in_some_order(seed: int) -> dict[str, Answers]:
    """Takes some turns of the loop for each call, others for every seed."""
    draws = random.Random(seed)

    async def work(request: CallRequest) -> Any:
        for _ in range(draws.randrange(8)):
            await asyncio.sleep(0)
        return request.args["step"]

    return {"work": Answers(work)}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=6),
    gives_up=st.booleans(),
    stops=st.lists(st.integers(0, 25), min_size=1, max_size=4),
    seed=st.integers(0, 2**32),
)
def test_branches_see_the_same_order_after_every_crash(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], gives_up: bool, stops: list[int], seed: int
) -> None:
    bench = Bench(tmp_path_factory.mktemp("home"))
    run = bench.create()
    before: list[tuple[int, int]] = []
    for turn, stop in enumerate([*stops, 1000]):
        branches = Branches(lengths, gives_up=gives_up, stops_after=stop)
        view = bench.drive(run, ScriptedCells([branches.program]), in_some_order(seed + turn))
        assert view.reason == "sandbox", view.message
        common = min(len(before), len(branches.seen))
        assert branches.seen[:common] == before[:common]
        before = max(before, list(branches.seen), key=len)
    last = Branches(lengths, gives_up=gives_up, stops_after=None)
    view = bench.drive(run, ScriptedCells([last.program]), {"work": Answers(never)})
    assert view.status is Status.COMPLETED
    assert last.seen == before
