"""One process of `tests.helpers.crash_server`: forks for each job that it is given, and the child does what the job says."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

import engine.catalog.snapshots
import engine.images
import engine.sandbox.service  # noqa: F401 - an App loads them when they are needed, which is in every child
from engine import points
from engine.app import App, open_app
from engine.clock import Clock, SystemClock
from engine.errors import ClocheError
from engine.run.calls import CallHandler, Effects
from engine.run.cells import CellFactory, RunCell
from engine.run.decisions import cancel, decide_unknown
from engine.run.folder import Run
from engine.run.generation import Limits
from engine.run.lifecycle import drive
from engine.run.store import RunNotFound, RunStore
from engine.sandbox.cell import open_cell
from engine.sandbox.frames import CellFrame
from engine.sandbox.jobs import RunJob
from engine.sandbox.outcome import CellEnd
from engine.settings import Settings
from tests.helpers.cells import ScriptedCell
from tests.helpers.crash_programs import SCRIPTED, Noted, answer
from tests.helpers.crash_server import Job
from tests.helpers.runs import StillClock, make_spec


def main() -> None:
    """Fork for each job, and say what becomes of it."""
    anyio.run(anyio.sleep, 0)  # loads what would be loaded in every child
    gc.freeze()  # a collection in a child would copy every page
    print("ready", flush=True)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            os._exit(_child(Job(**json.loads(line))))
        print("started", pid, flush=True)
        while True:
            _, status = os.waitpid(pid, os.WUNTRACED)
            if not os.WIFSTOPPED(status):
                break
            print("stopped", pid, flush=True)
        print("ended", os.waitstatus_to_exitcode(status), flush=True)


def _child(job: Job) -> int:
    """0 for a generation that came to an end, 2 for one that was refused, 1 for a bug."""
    try:
        asyncio.run(_execute(job))
    except ClocheError as error:
        print(f"{error.code}: {error.message}", file=sys.stderr, flush=True)
        return 2
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


async def _execute(job: Job) -> None:
    moments = Moments(job)
    points.install(moments.reached)
    if not job.snapshot:
        clock = SystemClock() if job.ticks else StillClock()
        await _do(job, clock, Factory(moments.reached, _scripted(job.program)), moments, _nothing_to_prove)
        return
    settings = Settings(
        home=Path(job.home),
        docker_host=job.engine,
        runtime=job.runtime,
        engine_timeout_s=job.engine_timeout_s,
        warm_cells=0,
    )
    with open_app(settings) as app:
        image_id = await app.cells.ready()
        await _do(job, SystemClock(), Factory(moments.reached, _real(app, image_id)), moments, app.cells.prove_gone)


async def _do(job: Job, clock: Clock, cells: Factory, moments: Moments, prove_gone: Callable[[str], Any]) -> None:
    async def gone(cell_id: str) -> None:
        moments.reached("gone.before")
        await prove_gone(cell_id)
        moments.reached("gone.proven")

    run = find_or_create(job, clock)
    if job.verb == "cancel":
        await cancel(run, by="a test", prove_gone=gone)
    elif job.verb == "decide":
        unknown = next(record for record in run.read()[1].records.values() if record.outcome is None)
        decide_unknown(run, unknown.seq, what="value", value=answer(unknown.key, {}), by="a test")
    else:
        await drive(
            run,
            snapshot=Path(job.snapshot or job.home),
            cells=cells,
            handlers=_handlers(job, cells, moments),
            prove_gone=gone,
            limits=Limits(suspend_after_s=job.suspend_after_s),
        )


def find_or_create(job: Job, clock: Clock) -> Run:
    """The run of a job."""
    store = RunStore(Path(job.home), clock=clock)
    try:
        return store.open(job.run_id)
    except RunNotFound:
        created_at = clock.now().timestamp()
        return store.create(make_spec(run_id=job.run_id, workflow_id=job.program, created_at=created_at, pins={}))


async def _nothing_to_prove(_cell_id: str) -> None:
    return


class Moments:
    """Counts what comes, and acts when it is time."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._counts: Counter[str] = Counter()
        self._trace = os.open(job.trace, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) if job.trace else -1

    def reached(self, moment: str) -> None:
        self._counts[moment] += 1
        if self._trace >= 0:
            os.write(self._trace, f"{moment} {self._counts[moment]}\n".encode())
        if self._job.act and moment == self._job.point and self._counts[moment] == self._job.nth:
            os.kill(os.getpid(), signal.SIGKILL if self._job.act == "kill" else signal.SIGSTOP)


class Factory:
    """A CellFactory that names the moments of its cells, and knows which generation it opened one for last."""

    def __init__(self, reached: Callable[[str], object], inner: CellFactory) -> None:
        self.generation = 0
        self._reached = reached
        self._inner = inner

    @asynccontextmanager
    async def __call__(self, *, run_id: str, generation: int) -> AsyncIterator[RunCell]:
        self.generation = generation
        self._reached("cell.opening")
        async with self._inner(run_id=run_id, generation=generation) as cell:
            yield NamedCell(cell, self._reached)


class NamedCell:
    """A cell whose moments are named."""

    def __init__(self, inner: RunCell, reached: Callable[[str], object]) -> None:
        self.cell_id = inner.cell_id
        self.image = inner.image
        self.runtime = inner.runtime
        self._inner = inner
        self._reached = reached

    async def deliver(self, job: RunJob, snapshot: Path) -> None:
        await self._inner.deliver(job, snapshot)
        self._reached("cell.delivered")

    async def receive(self) -> CellFrame:
        return await self._inner.receive()

    async def receive_within(self, seconds: float) -> CellFrame | None:
        return await self._inner.receive_within(seconds)

    async def reply_ok(self, number: int, encoded: Any, *, at: float, ahead: str = "") -> None:
        self._reached("reply.before")
        await self._inner.reply_ok(number, encoded, at=at, ahead=ahead)
        self._reached("reply.sent")

    async def reply_error(
        self, number: int, type_name: str, message: str, traceback: str, *, at: float, ahead: str = ""
    ) -> None:
        self._reached("reply.before")
        await self._inner.reply_error(number, type_name, message, traceback, at=at, ahead=ahead)
        self._reached("reply.sent")

    async def reply_stop(self, number: int, reason: str) -> None:
        self._reached("reply.before")
        await self._inner.reply_stop(number, reason)
        self._reached("reply.sent")

    async def cancel(self, reason: str) -> None:
        await self._inner.cancel(reason)

    async def finish(self) -> CellEnd:
        self._reached("cell.finishing")
        end = await self._inner.finish()
        self._reached("cell.finished")
        return end


def _scripted(program: str) -> CellFactory:
    @asynccontextmanager
    async def opening(*, run_id: str, generation: int) -> AsyncIterator[RunCell]:
        yield ScriptedCell(f"c{generation:016x}", SCRIPTED[program])

    return opening


def _real(app: App, image_id: str) -> CellFactory:
    @asynccontextmanager
    async def opening(*, run_id: str, generation: int) -> AsyncIterator[RunCell]:
        async with open_cell(
            app.sandbox, image_id=image_id, kind="run", deadline_s=120, run_id=run_id, generation=generation
        ) as cell:
            yield cell

    return opening


def _handlers(job: Job, cells: Factory, moments: Moments) -> Mapping[str, CallHandler]:
    def noted(effects: Effects, pause_s: float) -> Noted:
        return Noted(job.ledger, lambda: cells.generation, os.getpid(), moments.reached, effects, pause_s)

    return {
        "read": noted(Effects.NONE, 0),
        "emit": noted(Effects.NONE, 0),
        "llm": noted(Effects.NONE, job.pause_s),
        "agent": noted(Effects.IDEMPOTENT, job.pause_s),
        "grep": noted(Effects.SOME, job.pause_s),
    }


if __name__ == "__main__":
    main()
