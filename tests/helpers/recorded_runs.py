"""Records one run of every kind that this version's journal knows: `python -m tests.helpers.recorded_runs FOLDER`.

The folders that it wrote are kept as `tests/fixtures/journal/<format>/<kind>/` and never made again: they show that what one
version recorded is read, shown and gone on with by every later one. Format 1 was recorded by the last version that wrote it.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from engine.run import handover
from engine.run.calls import CallRequest, Effects
from engine.run.claim import Owner
from engine.run.decisions import answer
from engine.run.folder import Run
from engine.run.generation import Limits
from engine.run.projection import view_of
from engine.run.view import RunView, calls_of
from engine.sandbox.outcome import Cause
from tests.helpers.cells import Answers, Die, GiveUp, ScriptedCells, Step, Still, ask, begin
from tests.helpers.runs import Bench

Playing = Generator[Step, Any, Any]
LEFT, RIGHT = "/parallel@workflow.main[1.1]", "/parallel@workflow.main[1.2]"


def summary(view: RunView, result: Any) -> dict[str, Any]:
    """What must be read out of a recorded run for ever."""
    return {
        "status": view.status.value,
        "reason": view.reason,
        "executions": view.executions,
        "generations": [[generation.status.value, generation.reason] for generation in view.generations],
        "calls": [[call.scope, call.fn, call.n, call.status, call.attempts] for call in calls_of(view.calls)],
        "artifacts": [artifact.path for artifact in view.artifacts],
        "result": result,
    }


def branches() -> Playing:
    """Two branches and a task, answered in another order than asked."""
    yield begin("slow", scope=LEFT)
    yield begin("quick", scope=RIGHT)
    yield begin("timer", scope="/task@steps.wait.pause[1]", delay_s=0.0)
    got = []
    for _ in range(3):
        number, value = yield Still()
        got.append((number, value))
    return got


def gives_up() -> Playing:
    """Stops waiting for the slow one."""
    slow = yield begin("endless", scope=LEFT)
    yield begin("quick", scope=RIGHT)
    _, value = yield Still()
    yield GiveUp(slow)
    yield ask("quick")
    return value


def asks() -> Playing:
    """Needs a person."""
    said = yield ask("ask", question="Go on?", schema={"type": "boolean"})
    yield ask("quick")
    return said


def waits() -> Playing:
    """Needs patience."""
    return (yield ask("slow"))


def dies() -> Playing:
    """Is lost with its cell."""
    yield ask("quick")
    yield Die(Cause.SUPERVISOR_LOST)


def handlers(bench: Bench) -> dict[str, Answers]:
    """What these programs call."""

    async def slow(request: CallRequest) -> str:
        bench.clock.pass_by(10)
        await asyncio.sleep(0.3)
        return "at last"

    async def endless(request: CallRequest) -> None:
        await asyncio.Event().wait()

    return {
        "quick": Answers(lambda request: "quick"),
        "slow": Answers(slow, counted=True),
        "endless": Answers(endless, effects=Effects.SOME),
        "timer": Answers(lambda request: None, kind="timer"),
        "ask": Answers(lambda request: None, kind="person"),
    }


def overlapping(bench: Bench, run: Run) -> None:
    bench.drive(run, ScriptedCells([branches]), handlers(bench))


def dropped(bench: Bench, run: Run) -> None:
    bench.drive(run, ScriptedCells([gives_up]), handlers(bench))


def waiting_for_a_person(bench: Bench, run: Run) -> None:
    bench.drive(run, ScriptedCells([asks]), handlers(bench))


def answered(bench: Bench, run: Run) -> None:
    view = bench.drive(run, ScriptedCells([asks]), handlers(bench))
    answer(run, calls_of(view.calls)[0].seq, True, by="ada")
    bench.drive(run, ScriptedCells([asks]), handlers(bench))


def waited_for_a_slow_call(bench: Bench, run: Run) -> None:
    bench.drive(run, ScriptedCells([waits]), handlers(bench), limits=Limits(suspend_after_s=5))


def crashed_five_times(bench: Bench, run: Run) -> None:
    for _ in range(5):
        bench.drive(run, ScriptedCells([dies]), handlers(bench))


KINDS: dict[str, Callable[[Bench, Run], None]] = {
    kind.__name__: kind
    for kind in (overlapping, dropped, waiting_for_a_person, answered, waited_for_a_slow_call, crashed_five_times)
}


def result_of(run: Run) -> Any:
    """The result of a completed run in codec form, else None."""
    end = run.read()[1].finished
    return None if end is None else run.value(end.result, end.blob)


def record(folder: Path) -> None:
    """Record every kind into folders of its own below `folder`."""
    vars(handover)["this_process"] = lambda: Owner(4711, "host")  # the files say nothing of the machine that made them
    for number, (name, play) in enumerate(KINDS.items(), start=1):
        with tempfile.TemporaryDirectory() as home:
            bench = Bench(Path(home))
            run = bench.create(run_id=f"20261130T130000Z-{number:08x}", total_s=1e6)
            play(bench, run)
            keep(run, folder / name)


def keep(run: Run, folder: Path) -> None:
    """Copy what a run consists of, and what is read out of it."""
    folder.mkdir(parents=True)
    for name in ("run.json", "journal.jsonl"):
        shutil.copy(run.folder / name, folder / name)
    if (run.folder / "blobs").is_dir():
        shutil.copytree(run.folder / "blobs", folder / "blobs")
    told = json.dumps(summary(view_of(run), result_of(run)), indent=1, ensure_ascii=False)
    (folder / "summary.json").write_text(told + "\n")


if __name__ == "__main__":
    record(Path(sys.argv[1]))
