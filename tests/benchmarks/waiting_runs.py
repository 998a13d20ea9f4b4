"""Holds more and more waiting runs; prints the bytes of memory of this process at each number of them, as a JSON list.

python -m tests.benchmarks.waiting_runs HOME RUNS …
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import anyio

from engine.app import App
from engine.clock import SystemClock
from engine.run.calls import CallHandler, CallRequest, CallResult, Effects
from engine.run.status import Status
from engine.run.view import RunView
from tests.benchmarks.house import CALLS, settings_of
from tests.benchmarks.one_shot import new_run

AT_ONCE = 4
SUSPEND_AFTER_S = 0.05
WAITING_S = 60.0


@dataclass(frozen=True)
class SlowHandler:
    """`now` that never comes back."""

    kind: Literal["", "timer", "person"] = ""
    instant: bool = False
    counted: bool = False
    effects: Effects = Effects.NONE
    permission: str = ""

    async def execute(self, request: CallRequest) -> CallResult:
        await anyio.sleep_forever()
        raise AssertionError("for ever is over")


class SlowApp(App):
    """An application whose `now` is slow."""

    def handlers(self, *given: Any, **named: Any) -> Mapping[str, CallHandler]:
        return {**super().handlers(*given, **named), "now": SlowHandler()}


async def hold(app: App, levels: list[int]) -> list[int]:
    """Bytes at each level. Afterwards all runs are interrupted."""
    snapshot = app.snapshots.for_revision(*app.catalog.resolve(CALLS))
    taken, held = [], 0
    async with anyio.create_task_group() as runs:
        for level in levels:
            while held < level:
                batch = min(AT_ONCE, level - held)
                await _begin(app, runs, [new_run(app, snapshot, "1").run_id for _ in range(batch)])
                held += batch
            taken.append(_own_bytes())
        runs.cancel_scope.cancel()
    return taken


async def _begin(app: App, runs: anyio.abc.TaskGroup, run_ids: list[str]) -> None:
    """Come back when they all wait."""
    waiting = [anyio.Event() for _ in run_ids]
    for run_id, event in zip(run_ids, waiting, strict=True):
        runs.start_soon(partial(app.resume, run_id, progress=partial(_watch, event)))
    with anyio.fail_after(WAITING_S):
        for event in waiting:
            await event.wait()


def _watch(event: anyio.Event, view: RunView) -> None:
    if view.status is Status.WAITING:
        event.set()


def _own_bytes() -> int:
    """Memory that no file backs, of this process."""
    gc.collect()
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the kernel does not tell RssAnon")


def main(home: Path, levels: list[int]) -> None:
    """Hold, and print."""
    app = SlowApp(settings_of(home, CLOCHE_SUSPEND_AFTER_S=str(SUSPEND_AFTER_S)), SystemClock())
    try:
        taken = anyio.run(hold, app, levels)
    finally:
        app.close()
    print(json.dumps(taken))


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(word) for word in sys.argv[2:]])
