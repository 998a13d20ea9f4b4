"""Verification in real cells: a program with branches, tasks, timers, clock and randomness, held against its record."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from engine.agents.waits import TimerHandler
from engine.clock import SystemClock
from engine.run.calls import CallFailed
from engine.run.events import CallCompleted, CallStarted, CellStarted, RunFinished
from engine.run.folder import Run
from engine.run.fork import forked_spec, inherit
from engine.run.lifecycle import drive
from engine.run.projection import result_of
from engine.run.status import Status
from engine.run.store import RunStore
from engine.run.verdict import Difference, Verdict, What
from engine.run.verify import Subject, verify
from engine.sandbox.cell import Cell, open_cell
from engine.sandbox.docker import Engine
from engine.sandbox.service import Sandbox
from tests.helpers.cells import Answers
from tests.helpers.journals import changed, doctored, repeated, swapped, without
from tests.helpers.runs import make_spec
from tests.helpers.sandbox import make_sandbox, nothing_left, snapshot
from tests.unit.test_run_fork import snapshot as pinned

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.anyio,
    pytest.mark.runc_only("the comparison is the host's; that a program does the same again is tried under both"),
]

PROGRAM = """
    import asyncio
    import random
    import time

    from cloche import CallError, llm, parallel


    def _branch(name: str) -> str:
        return llm(llm(name))


    async def _race() -> list[str]:
        found: list[str] = []

        async def sleeper(seconds: float) -> None:
            await asyncio.sleep(seconds)
            found.append(str(seconds))

        await asyncio.gather(sleeper(0.05), sleeper(0.01))
        return found


    def sample(task: str) -> dict[str, object]:
        first = llm("first")
        branches = parallel([lambda: _branch("left"), lambda: _branch("right")])
        try:
            llm("fails")
        except CallError as error:
            handled = error.type_name
        race = asyncio.run(_race())
        return {
            "first": first,
            "branches": branches,
            "handled": handled,
            "race": race,
            "clock": time.time(),
            "random": random.random(),
            "last": llm("last"),
        }
"""


def answer(request: Any) -> str:
    prompt = request.args["prompt"]
    if prompt == "fails":
        raise CallFailed("ModelError", "no answer")
    return f"<{prompt}>"


@dataclass
class Proof:
    """A sandbox, a store and a tree; drives and verifies runs of `sample` in real cells."""

    sandbox: Sandbox
    image_id: str
    home: Path
    tree: Path

    @property
    def store(self) -> RunStore:
        return RunStore(self.home, clock=SystemClock())

    def cells(self, *, run_id: str, generation: int) -> AbstractAsyncContextManager[Cell]:
        return open_cell(
            self.sandbox, image_id=self.image_id, kind="run", deadline_s=60, run_id=run_id, generation=generation
        )

    async def drive(self, run: Run, model: Answers) -> Status:
        async def prove_gone(_cell_id: str) -> None:
            return None

        handlers = {"llm": model, "timer": TimerHandler(SystemClock())}
        view = await drive(run, snapshot=self.tree, cells=self.cells, handlers=handlers, prove_gone=prove_gone)
        return view.status

    async def check(self, run: Run, tree: Path | None = None, **subject: Any) -> Verdict:
        given = {"revision": run.spec.revision, "digest": run.spec.snapshot_digest}
        held = Subject(tree or self.tree, **{**given, **subject})
        return await verify(run, held, cells=self.cells, deadline_s=60)


@pytest.fixture(scope="module")
def proof(tmp_path_factory: pytest.TempPathFactory, engine: Engine, image_id: str) -> Iterator[Proof]:
    root = tmp_path_factory.mktemp("proof")
    made = make_sandbox(root / "home", engine)
    with nothing_left(made):
        yield Proof(made, image_id, root / "home", snapshot(root / "tree", PROGRAM))


@pytest.fixture(scope="module")
async def original(proof: Proof) -> Run:
    """A completed run; tests change copies of it."""
    created_at = SystemClock().now().timestamp()
    run = proof.store.create(make_spec(workflow_id="sample", pins={}, created_at=created_at))
    assert await proof.drive(run, Answers(answer)) is Status.COMPLETED
    return run


@pytest.fixture
def run(original: Run, tmp_path: Path) -> Run:
    shutil.copytree(original.folder, tmp_path / original.run_id)
    return Run(tmp_path / original.run_id, original.spec, original.clock)


def only(verdict: Verdict) -> Difference:
    (found,) = verdict.differences
    return found


def start(run: Run, prompt: str) -> int:
    return next(r.seq for r in run.read()[1].records.values() if r.started.args == {"prompt": prompt})


def line(run: Run, kind: type, nth: int = 0) -> int:
    return [one.seq for one in run.read()[0].lines if isinstance(one.event, kind)][nth]


@pytest.mark.both_runtimes
async def test_a_run_with_everything_that_can_vary_is_verified(proof: Proof, run: Run) -> None:
    verdict = await proof.check(run)
    assert verdict.holds, verdict.differences
    assert (verdict.whole, verdict.asked) == (True, verdict.calls)
    assert verdict.calls >= 9


async def test_a_changed_argument_is_named(proof: Proof, run: Run) -> None:
    seq = start(run, "<left>")
    (event,) = [one.event for one in run.read()[0].lines if one.seq == seq]
    key = [*event.body()["key"][:3], "0" * 64]
    found = only(await proof.check(doctored(run, changed(seq, key=key, args={"prompt": "<links>"}))))
    assert (found.what, found.seq, found.where) == (What.ARGUMENT, seq, "$.prompt")
    assert found.site.startswith("workflow.py:")
    assert (found.recorded, found.asked) == ('{"prompt":"<links>"}', '{"prompt":"<left>"}')


async def test_a_changed_result_is_named(proof: Proof, run: Run) -> None:
    end = line(run, RunFinished)
    (event,) = [one.event for one in run.read()[0].lines if one.seq == end]
    result = {**event.body()["result"], "last": "another"}
    found = only(await proof.check(doctored(run, changed(end, result=result))))
    assert found.what is What.RESULT


async def test_a_changed_time_of_an_answer_is_seen_by_the_programs_clock(proof: Proof, run: Run) -> None:
    end = [one for one in run.read()[0].lines if isinstance(one.event, CallCompleted)][-2]

    def later(lines: list[Any]) -> list[Any]:
        return [replace(one, at=one.at + 0.5) if one.seq == end.seq else one for one in lines]

    found = only(await proof.check(doctored(run, later)))
    assert found.what is What.RESULT


async def test_a_swapped_order_is_named(proof: Proof, run: Run) -> None:
    found = only(await proof.check(doctored(run, swapped(start(run, "first"), start(run, "last")))))
    assert found.what is What.ORDER


async def test_a_missing_record_is_named(proof: Proof, run: Run) -> None:
    found = only(await proof.check(doctored(run, without(start(run, "<right>")))))
    assert (found.what, found.fn, found.asked) == (What.MISSING, "llm", 'llm({"prompt":"<right>"})')
    assert found.scope.endswith("[1.2]")


async def test_a_surplus_record_is_named(proof: Proof, run: Run) -> None:
    seq = start(run, "last")
    (event,) = [one.event for one in run.read()[0].lines if one.seq == seq]
    assert isinstance(event, CallStarted)
    scope, fn, n, digest = event.key
    found = only(await proof.check(doctored(run, repeated(seq, key=[scope, fn, n + 1, digest]))))
    assert (found.what, found.n) == (What.SURPLUS, n + 1)


async def test_another_image_is_named(proof: Proof, run: Run) -> None:
    found = only(await proof.check(doctored(run, changed(line(run, CellStarted), image="sha256:" + "0" * 64))))
    assert (found.what, found.asked) == (What.IMAGE, proof.image_id)


async def test_a_changed_byte_of_the_program_is_named_and_its_effect_too(
    proof: Proof, run: Run, tmp_path: Path
) -> None:
    tree = snapshot(tmp_path / "other", PROGRAM.replace('llm("last")', 'llm("Last")'))
    verdict = await proof.check(run, tree, digest="0" * 64)
    assert [found.what for found in verdict.differences] == [What.SNAPSHOT, What.ARGUMENT]


async def test_another_revision_is_held_against_the_record(proof: Proof, run: Run, tmp_path: Path) -> None:
    comment = snapshot(tmp_path / "comment", "\n    # a comment" + PROGRAM.replace('"first": first', '"First": first'))
    verdict = await proof.check(run, comment, revision="b" * 40, digest="0" * 64)
    assert (verdict.holds, len(verdict.notes)) == (True, 1)
    inserted = PROGRAM.replace('first = llm("first")', 'first = llm("first")\n        llm("new")')
    breaks = snapshot(tmp_path / "breaks", inserted)
    found = only(await proof.check(run, breaks, revision="c" * 40, digest="0" * 64))
    assert (found.what, found.asked) == (What.ARGUMENT, '{"prompt":"new"}')


async def test_an_unfinished_run_is_verified_up_to_its_last_completed_call(proof: Proof, run: Run) -> None:
    cut = start(run, "last")
    verdict = await proof.check(doctored(run, lambda lines: [one for one in lines if one.seq <= cut]))
    assert verdict.holds, verdict.differences
    assert (verdict.whole, verdict.asked) == (False, verdict.calls - 1)


@pytest.mark.both_runtimes
async def test_a_fork_goes_on_from_its_call_and_is_verified(proof: Proof, original: Run) -> None:
    inherited = inherit(original, start(original, "last"))
    spec = forked_spec(original.spec, inherited, snapshot=pinned(original), now=SystemClock().now())
    made, model = proof.store.create(spec, inherited=inherited), Answers(lambda _: "another end")
    assert await proof.drive(made, model) is Status.COMPLETED
    assert [request.args["prompt"] for request in model.executed] == ["last"]
    before, after = result_of(original), result_of(made)
    assert {name for name in before if before[name] != after[name]} == {"last"}
    verdict = await proof.check(made)
    assert verdict.holds, verdict.differences
