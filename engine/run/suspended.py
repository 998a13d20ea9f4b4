"""A run that waits without a cell for calls that take long: until one has its outcome, somebody cancels, or its time is over.

Meanwhile it holds its journal's descriptor and what it executes; the folded journal is read again when it goes on.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import anyio

from engine.errors import EngineFailure
from engine.run.answers import is_there
from engine.run.ending import CANCELLED, DEADLINE, INTERRUPTED, Ending, engine_failed
from engine.run.generation import Attempt

LOOK_S = 0.25
"""How often it looks for a cancel request, at most."""


async def sit_out(attempt: Attempt) -> bool:
    """Wait; True when an outcome was recorded and the program can go on, False when the run ended.

    Raises:
        asyncio.CancelledError: the run is interrupted, and that is recorded.
        StorageFull, EngineFailure: an outcome could not be recorded; the run ends by that, recorded if it can be.
    """
    recorder, calls = attempt.recorder, attempt.calls
    recorder.forget()
    try:
        ending = await _until_something_happens(attempt)
        recorder.recall()
        if ending is None:
            await calls.collect()
            calls.take_answers()
            return True
        await calls.abandon()
        attempt.finish(ending)
        return False
    except asyncio.CancelledError:
        await _end(attempt, INTERRUPTED)
        raise
    except EngineFailure as error:
        await _end(attempt, engine_failed(error))
        raise


async def _end(attempt: Attempt, ending: Ending) -> None:
    """Record the ending if that can be had; what made it passes on."""
    with anyio.CancelScope(shield=True):
        await attempt.calls.abandon()
    with suppress(EngineFailure):
        attempt.recorder.recall()
        attempt.finish(ending)


async def _until_something_happens(attempt: Attempt) -> Ending | None:
    run, tasks = attempt.run, attempt.calls.tasks
    until = run.clock.monotonic_s() + attempt.total_left_s()
    while True:
        if run.cancel_path.exists():
            return CANCELLED
        left = until - run.clock.monotonic_s()
        if left <= 0:
            return DEADLINE
        done, _ = await asyncio.wait(tasks, timeout=min(LOOK_S, left), return_when=asyncio.FIRST_COMPLETED)
        if done or is_there(run, attempt.calls.questions):
            return None
