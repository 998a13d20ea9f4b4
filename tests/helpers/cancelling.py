"""Runs cancelled from another process than the one that executes them, and what must hold of a cancelled run."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any

import anyio
import pytest

from engine.run.decisions import RunEndedAlready, cancel, decide_unknown
from engine.run.status import Status
from engine.run.view import RunView
from tests.helpers.chaos import Trial
from tests.helpers.sandbox import wait_for

REFUSED = 2
"""Exit code of a process whose verb was refused."""

Cancel = Callable[[Trial], RunView]


def cancel_scripted(trial: Trial) -> RunView:
    """Cancel a run whose cells are scripted, so that there is nothing to be proven gone."""

    async def gone(_cell_id: str) -> None:
        return

    async def cancelling() -> RunView:
        return await cancel(trial.run, by="a test", prove_gone=gone)

    return anyio.run(cancelling)


def cancelled_at(trial: Trial, point: str, nth: int = 1, *, by: Cancel = cancel_scripted, **changes: Any) -> float:
    """One generation that is cancelled at a moment; the seconds from there to the answer, which may be that it ended."""
    assert trial.stop_at(point, nth, **changes), f"{point} {nth} did not come"
    with ThreadPoolExecutor(1) as pool:
        cancelling = pool.submit(by, trial)
        wait_for(lambda: trial.run.cancel_path.exists() or cancelling.done())
        asked = monotonic()
        trial.stage.server.go_on()
        try:
            cancelling.result(60)
        except RunEndedAlready:
            assert trial.view().status is not Status.CANCELLED
        seconds = monotonic() - asked
    assert trial.stage.server.wait() == "ended"
    trial.look()
    return seconds


def check_cancelled(trial: Trial, *, by: Cancel = cancel_scripted) -> None:
    """It is cancelled for good: whatever comes later is refused and changes nothing."""
    trial.look()
    before, executions = trial.run.journal_path.read_bytes(), trial.executions()
    history = trial.history()
    assert (trial.view().status, history.is_final) == (Status.CANCELLED, True)
    for record in history.records.values():
        assert record.outcome is not None or record.lost, f"call {record.seq} has no end and is not called unknown"
        with pytest.raises(RunEndedAlready):
            decide_unknown(trial.run, record.seq, what="rerun")
    assert trial.resume() == REFUSED
    assert by(trial).status is Status.CANCELLED
    assert not trial.run.cancel_path.exists()
    assert (trial.run.journal_path.read_bytes(), trial.executions()) == (before, executions)
