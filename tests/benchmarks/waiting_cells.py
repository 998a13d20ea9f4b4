"""Cells that wait for a job: how soon the program runs, what a run in one costs beside one in a new cell, and what waiting costs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import anyio
from cloche_guest import codec

from engine.app import App, open_app
from engine.run.status import Status
from engine.sandbox.cgroup import Cgroup
from engine.sandbox.frames import Call, End, Result
from engine.sandbox.jobs import RunJob
from engine.sandbox.launch import Wish
from engine.sandbox.pool import borrowed_cell, fill, idle_cells
from engine.sandbox.service import Sandbox
from tests.benchmarks.figures import Figure, Target, alone, compare
from tests.benchmarks.house import STAYING, TRIVIAL, settings_of
from tests.benchmarks.one_shot import BASELINE, drive_app, raw_engine
from tests.benchmarks.rounds import Told, interleaved
from tests.helpers.runtimes import GVISOR_HOST, gvisor_answers

WARM, COLD = Target("ratio", 0.15), Target("ratio", 1.1)
FIRST_LINE = Target("median", 0.005)
GONE = Target("median", 0.3)
IDLE_MEMORY, IDLE_CPU = Target("median", 10 * 1024 * 1024), Target("median", 0.005)
IDLE_S = 20.0
SETTLED_S = 0.3
"""A cell that waits has said hello, and loads what its job needs after that."""

DEADLINE_S = 60.0

FIRST = """import os

_file = os.open("/tmp/first", os.O_RDWR | os.O_CREAT)
os.write(_file, b"1")
os.fstat(_file)  # a time that was asked for makes the next one exact
os.write(_file, b"2")
AT = os.fstat(_file).st_mtime_ns

from cloche import now


def first(task):
    now()
    return AT
"""
"""Its first line notes the machine's time in the only way that the run's own clock leaves: the time of a file.

Under gVisor that is a clock of the sandbox. So the program calls the host next, whose clock then bounds the figure from above.
"""


@contextmanager
def with_pool(app: App, **environ: str) -> Iterator[App]:
    """Another application on the same home, with a pool; no cell waits before and after."""
    settings = settings_of(app.settings.home, **{"CLOCHE_WARM_CELLS": "1", **environ})
    with open_app(settings) as warm:
        try:
            yield warm
        finally:
            settle(warm)
            warm.reap(idle=True)


def settle(app: App) -> None:
    """Used cells are removed and the pool is full."""
    assert app.sandbox.keeper is not None
    app.sandbox.keeper.settle()


def measure(app: App, *, root: Path, rounds: int) -> list[Figure]:
    """Under runc; and what waiting costs under gVisor, where the tests' second engine answers."""
    figures = _under_runc(app, root=root, rounds=rounds)
    if gvisor_answers():
        with with_pool(app, CLOCHE_RUNTIME="runsc", DOCKER_HOST=GVISOR_HOST) as warm:
            figures += cells_alone(warm, root=root / "runsc", rounds=max(5, rounds // 3), first_line=None)
    return figures


def _under_runc(app: App, *, root: Path, rounds: int) -> list[Figure]:
    snapshot = app.snapshots.for_revision(*app.catalog.resolve(TRIVIAL))
    with raw_engine(app, root) as once, with_pool(app) as warm:
        anyio.run(warm.cells.ready)
        run = partial(drive_app, warm, snapshot)
        in_waiting, raw, in_new, raw_again = interleaved(
            partial(_after, partial(settle, warm), run),
            once,
            partial(_after, partial(_emptied, warm), run),
            once,
            rounds=rounds,
        )
        settle(warm)
        return [
            compare("run in a waiting cell", measured=in_waiting, baseline=BASELINE, baselines=raw, target=WARM),
            compare("run in a new cell", measured=in_new, baseline=BASELINE, baselines=raw_again, target=COLD),
            *cells_alone(warm, root=root / "runc", rounds=rounds, first_line=FIRST_LINE),
            alone(
                "cancel until proven gone", measured=[_cancelled(warm) for _ in range(rounds)], unit="ms", target=GONE
            ),
        ]


def cells_alone(app: App, *, root: Path, rounds: int, first_line: Target | None) -> list[Figure]:
    """From handing over to the first line of the package, and what a waiting cell takes; under the runtime of `app`."""
    image_id, runtime = anyio.run(app.cells.ready), app.settings.runtime
    package = _snapshot(root, "first", FIRST)
    policy = anyio.run(app.sandbox.fitting_policy, "run", runtime)
    wish = Wish(image_id, "run", DEADLINE_S, 0, "", policy, policy)
    handed = []
    for _ in range(rounds):
        settle(app)
        anyio.run(fill, app.sandbox, wish)
        threading.Event().wait(SETTLED_S)
        handed.append(anyio.run(_handed, app.sandbox, image_id, package))
    first_lines, first_calls = zip(*handed, strict=True)
    settle(app)
    anyio.run(fill, app.sandbox, wish)
    memory, share = _idle(app.sandbox, wish)
    return [
        alone(f"handed over until first line ({runtime})", measured=first_lines, unit="ms", target=first_line),
        alone(f"handed over until first call is here ({runtime})", measured=first_calls, unit="ms"),
        alone(
            f"memory of a waiting cell ({runtime})",
            measured=[memory],
            unit="KB",
            target=IDLE_MEMORY if first_line else None,
        ),
        alone(f"processor of a waiting cell, in a second ({runtime})", measured=[share], unit="ms", target=IDLE_CPU),
    ]


def _after(before: Callable[[], object], action: Callable[[], object]) -> Told:
    before()
    begun = time.perf_counter()
    action()
    return Told(time.perf_counter() - begun)


def _emptied(app: App) -> None:
    settle(app)
    app.reap(idle=True)


async def _handed(sandbox: Sandbox, image_id: str, package: Path) -> tuple[float, float]:
    """Seconds until the first line, by the cell's clock, and until the first call arrived, by the host's."""
    async with borrowed_cell(sandbox, image_id=image_id, kind="run", deadline_s=DEADLINE_S) as cell:
        assert cell.is_warm
        begun = time.time_ns()
        await cell.deliver(RunJob("first", codec.encode(None), "00" * 16, DEADLINE_S), package)
        while not isinstance(frame := await cell.receive(), End):
            if isinstance(frame, Call):
                called = time.time_ns()
                await cell.reply_ok(frame.number, codec.encode(0.0), at=0.0)
            if isinstance(frame, Result):
                assert frame.error is None, frame.error
                at = int(codec.decode(frame.encoded))
    return (at - begun) / 1e9, (called - begun) / 1e9


def _idle(sandbox: Sandbox, wish: Wish) -> tuple[float, float]:
    """Bytes, and seconds of processor time a second, of the one cell that waits."""
    (idle,) = idle_cells(sandbox, wish)
    cgroup = Cgroup.find(idle.pid, idle.container_id)
    assert cgroup is not None
    try:
        threading.Event().wait(2)
        before = cgroup.sample()
        threading.Event().wait(IDLE_S)
        after = cgroup.sample()
        assert before is not None
        assert after is not None
        return float(cgroup.memory_now()), ((after.cpu_s or 0.0) - (before.cpu_s or 0.0)) / IDLE_S
    finally:
        cgroup.close()


def _snapshot(root: Path, name: str, source: str) -> Path:
    package = root / "workflows" / name
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text(f"from .workflow import {name}\n")
    (package / "workflow.py").write_text(source)
    return root


def _cancelled(app: App) -> float:
    """From the request of another task to its answer, which comes when the cell is proven gone."""
    settle(app)
    took = 0.0

    async def cancel() -> None:
        nonlocal took
        while not (running := [view for view in app.views(limit=20)[0] if view.status is Status.RUNNING]):
            await anyio.sleep(0.05)
        await anyio.sleep(0.3)
        begun = time.perf_counter()
        await app.cancel(running[0].run_id)
        took = time.perf_counter() - begun

    async def both() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel)
            view = await app.run(STAYING, "stay")
            assert view.status is Status.CANCELLED, view

    anyio.run(both)
    return took
