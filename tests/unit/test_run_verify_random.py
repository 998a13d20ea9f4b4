"""Random programs with branches, failures and crashes: what was recorded is verified, and so is a fork from any call.

Nothing that a run may do on its way may look like a changed record.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from engine.catalog.snapshots import PinnedSnapshot
from engine.run.calls import CallFailed, Effects
from engine.run.folder import Run
from engine.run.fork import forked_spec, inherit
from engine.run.generation import Choices
from engine.run.replay import OnUnknown
from engine.run.status import Status
from engine.run.verdict import Verdict
from engine.run.verify import Subject, verify
from engine.sandbox.outcome import Cause
from tests.helpers.cells import Answers, CallError, Die, GiveUp, Program, ScriptedCells, Still, ask, begin
from tests.helpers.runs import Bench

Playing = Generator[Any, Any, Any]


class World:
    """Handlers whose latency and failures are drawn anew at every execution, as the world's are."""

    def __init__(self, seed: int) -> None:
        self.draws = random.Random(seed)
        self.failures = 0.15

    def handlers(self) -> dict[str, Answers]:
        return {
            "slow": Answers(self._answer, effects=Effects.SOME),
            "now": Answers(self._instantly, instant=True),
            "timer": Answers(self._answer, kind="timer"),
        }

    async def _answer(self, request: Any) -> int:
        for _ in range(self.draws.randrange(6)):
            await asyncio.sleep(0)
        return self._instantly(request)

    def _instantly(self, _request: Any) -> int:
        if self.draws.random() < self.failures:
            raise CallFailed("ModelError", "no answer")
        return self.draws.randrange(1000)


def program(seed: int, *, dies_after: int | None) -> Program:
    """Up to 24 branches of up to four calls, each asked with the answer before it. Decides by the seed and its answers alone."""
    plan = random.Random(seed)
    branches = [
        [plan.choice(["slow", "slow", "now", "timer"]) for _ in range(plan.randrange(1, 5))]
        for _ in range(plan.choice([1, 2, 3, 24]))
    ]
    fragile, hasty = plan.random() < 0.3, plan.random() < 0.3

    def playing() -> Playing:
        seen: list[Any] = []
        open_: dict[int, tuple[int, int]] = {}
        for branch, calls in enumerate(branches, start=1):
            number = yield begin(calls[0], scope=f"/parallel@workflow.main[1.{branch}]", after=None)
            open_[number] = (branch, 0)
        while open_:
            if dies_after is not None and len(seen) >= dies_after:
                yield Die(Cause.SUPERVISOR_LOST)
            number, value = yield Still()
            branch, step = open_.pop(number)
            if isinstance(value, CallError) and fragile:
                for other in open_:
                    yield GiveUp(other)
                raise value
            seen.append(str(value))
            if hasty and len(seen) % 7 == 6 and open_:
                given_up = next(iter(open_))
                del open_[given_up]
                yield GiveUp(given_up)
            if step + 1 < len(branches[branch - 1]):
                scope = f"/parallel@workflow.main[1.{branch}]"
                number = yield begin(branches[branch - 1][step + 1], scope=scope, after=str(value))
                open_[number] = (branch, step + 1)
        return [seen, (yield ask("now", after=len(seen)))]

    return playing


def driven(bench: Bench, run: Run, seed: int) -> Status:
    """Drive it through crashes to an end of its program, or until it was tried often enough."""
    world, draws = World(seed), random.Random(seed + 1)
    status = Status.INTERRUPTED
    for attempt in range(6):
        dies_after = draws.randrange(12) if attempt < 4 and draws.random() < 0.7 else None
        world.failures = 0.15 if attempt < 3 else 0.0
        cells = ScriptedCells([program(seed, dies_after=dies_after)])
        view = bench.drive(run, cells, world.handlers(), choices=Choices(on_unknown=OnUnknown.RERUN))
        status = view.status
        if status is Status.COMPLETED or draws.random() < 0.15:
            break
    return status


def checked(run: Run, seed: int) -> Verdict:
    subject = Subject(run.folder, revision=run.spec.revision, digest=run.spec.snapshot_digest)
    cells = ScriptedCells([program(seed, dies_after=None)])
    return asyncio.run(verify(run, subject, cells=cells, deadline_s=60))


@pytest.mark.parametrize("seed", range(60))
def test_what_a_run_did_on_its_way_is_no_difference(seed: int, tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    run = bench.create(cap=10_000)
    driven(bench, run, seed)
    assert checked(run, seed).differences == []

    history = run.read()[1]
    named = random.Random(seed + 2).choice(list(history.records))
    inherited = inherit(run, named)
    spec = run.spec
    snapshot = PinnedSnapshot(
        spec.snapshot_digest, run.folder, spec.workflow_id, spec.revision, spec.tree_id, spec.pins
    )
    bench.clock.pass_by(1)
    made = bench.store.create(
        forked_spec(spec, inherited, snapshot=snapshot, now=bench.clock.now()), inherited=inherited
    )
    driven(bench, made, seed)
    assert checked(made, seed).differences == []
