"""What stands between generations: cells of dead owners proven gone, open calls called unknown, the view brought up to date."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from engine.errors import EngineFailure
from engine.run.claim import Recorder, this_process
from engine.run.ending import Ending
from engine.run.events import CallUnknown, CellEnded, RunFinished, RunStarted
from engine.run.projection import project, write_state
from engine.run.view import RunView
from engine.run.wording import MESSAGE_CHARACTERS, clean

ProveGone = Callable[[str], Awaitable[None]]
"""Kills what is left of a cell, by id, and returns when the engine no longer knows it; raises SandboxError otherwise."""


async def leave_no_cell(recorder: Recorder, prove_gone: ProveGone) -> None:
    """Before a cell is opened: none of an earlier generation lives."""
    for cell in recorder.history.unended_cells():
        await prove_gone(cell)
        recorder.record(CellEnded(cell=cell, cause="owner_lost", detail="removed by a later owner"))


async def leave_nothing_behind(recorder: Recorder, prove_gone: ProveGone) -> None:
    """Before anything is begun: no cell of a dead owner lives, and its open calls are known to be unknown."""
    await leave_no_cell(recorder, prove_gone)
    lost = [CallUnknown(of=record.seq) for record in recorder.history.open_records()]
    if lost:
        recorder.record(*lost)


def run_started(recorder: Recorder) -> RunStarted:
    """The event that begins the next generation."""
    owner = this_process()
    return RunStarted(pid=owner.pid, host=owner.host, torn=recorder.torn)


def run_finished(ending: Ending, **fields: Any) -> RunFinished:
    """The event that ends the current one."""
    return RunFinished(
        status=ending.status,
        reason=ending.reason,
        message=clean(ending.message, MESSAGE_CHARACTERS),
        error=ending.error,
        **fields,
    )


def write_view(recorder: Recorder) -> RunView:
    """The view of a claimed run that is not being executed; state.json is brought up to date."""
    view = project(recorder.run, recorder.history, owned=False)
    with suppress(EngineFailure):  # a copy; the journal is what counts
        write_state(recorder.run, view, size=recorder.size, head=recorder.head)
    return view
