"""A run from its claim to its end: one generation in one cell, from the first one as from an interrupted one.

    claim ─▶ prove older cells gone ─▶ run.started ─▶ cell.started ─▶ pass ─▶ cell.ended ─▶ run.finished
                                         ▲                                                └▶ run.waiting ─┐
                                         └──────────── an outcome or an answer ───────────────────────────┘

Everything a resume needs is in the run's folder and in the snapshot that it names; nothing is searched, chosen or updated on
the way. A generation ends in its record or, when its owner dies, without one, and the next one goes on from there. What is
executed outlives a cell, never the claim.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import anyio

from engine import log
from engine.errors import RunCancelled, UsageError
from engine.run import answers
from engine.run.blobs import text_of
from engine.run.calls import CallHandler, RunContext
from engine.run.cells import CellFactory
from engine.run.claim import Recorder, claimed
from engine.run.events import Decision
from engine.run.executing import Calls
from engine.run.folder import Run
from engine.run.generation import Attempt, Choices, Limits
from engine.run.handover import ProveGone, leave_no_cell, leave_nothing_behind, run_started, write_view
from engine.run.spec import RunSpec
from engine.run.status import Status
from engine.run.suspended import sit_out
from engine.run.view import RunView


class StillCapped(UsageError):
    """The cap that was asked for lets no further call through."""

    code = "cap_too_low"


class TaskTooLarge(UsageError):
    """The task does not fit through the exchange."""

    code = "task_too_large"


async def drive(
    run: Run,
    *,
    snapshot: Path,
    cells: CellFactory,
    handlers: Mapping[str, CallHandler],
    prove_gone: ProveGone,
    limits: Limits | None = None,
    choices: Choices | None = None,
    watch: Callable[[RunView], None] | None = None,
) -> RunView:
    """Execute a run, or go on with one that was interrupted, failed or capped; returns it as it then stands.

    A completed run is returned as it is, and so is a capped one unless `choices` raises its cap. `snapshot` is the read-only tree
    that the run's `snapshot_digest` names. `watch` sees the views that state.json gets. A failed or unavailable sandbox is
    recorded and returned (status failed, reason sandbox). Cancelling the task interrupts the run: the cell is destroyed, that
    is recorded, and the cancellation goes on. While the run waits for slow calls without a cell, this goes on waiting; when
    only people can bring it on, it returns (status waiting).

    Raises:
        RunOwned: another process executes it.
        RunCancelled: it was cancelled, which is final.
        SandboxError: a cell of a dead owner could not be proven gone; nothing was begun.
        StillCapped: the raised cap is not above the executions made.
        TaskTooLarge: the task is larger than a value may be.
        JournalDamaged, StorageFull, EngineFailure: the record cannot be read or written; recorded as far as possible.
    """
    chosen, bounds = choices or Choices(), limits or Limits()
    check_task(run.spec, bounds)
    with claimed(run) as recorder:
        if not _goes_on(recorder, chosen):
            return write_view(recorder)
        await leave_nothing_behind(recorder, prove_gone)
        context = _context(run.spec, snapshot)
        answers.take(recorder, [record.seq for record in recorder.history.open_questions()])
        calls = Calls(recorder, handlers=handlers, context=context, bounds=bounds.calls)
        decisions = _decisions(chosen)
        try:
            while True:
                await leave_no_cell(recorder, prove_gone)
                recorder.record(run_started(recorder), *decisions)
                log.info("run.started", run=run.run_id, generation=recorder.history.generation)
                attempt = Attempt(recorder, snapshot, cells, calls, bounds, chosen, watch)
                view = await attempt.to_its_end()
                if view.status is not Status.WAITING or not calls.tasks:
                    return view
                if not await sit_out(attempt):
                    return write_view(recorder)
                decisions = []
        finally:
            with anyio.CancelScope(shield=True):
                await calls.abandon()


def _context(spec: RunSpec, snapshot: Path) -> RunContext:
    return RunContext(
        run_id=spec.run_id,
        workflow_id=spec.workflow_id,
        snapshot=snapshot,
        workspace=Path(spec.workspace),
        permissions=frozenset(spec.permissions),
        model=spec.model,
    )


def refuse_cancelled(run_id: str, status: Status) -> None:
    """Cancelling is final. Raises RunCancelled."""
    if status is Status.CANCELLED:
        raise RunCancelled(f"run {run_id} was cancelled.", fix="Start a new run.")


def check_task(spec: RunSpec, limits: Limits) -> None:
    """Refuse a task that does not fit through the exchange. Raises TaskTooLarge."""
    size = len(text_of(spec.task))
    if size > limits.value_bytes:
        raise TaskTooLarge(
            f"the task has {size:,} bytes; a value has at most {limits.value_bytes:,}.",
            fix="Put what is large into a file of the workspace.",
        )


def _goes_on(recorder: Recorder, choices: Choices) -> bool:
    """False for a run that stays as it is."""
    history, end = recorder.history, recorder.history.finished
    if end is not None:
        refuse_cancelled(recorder.run.run_id, end.status)
    if end is not None and end.status is Status.COMPLETED:
        return False
    if choices.raise_cap is not None and choices.raise_cap <= history.executions:
        raise StillCapped(
            f"run {recorder.run.run_id} made {history.executions} executions; a cap of {choices.raise_cap} stops it again.",
            fix=f"Raise the cap above {history.executions}.",
        )
    return not (end is not None and end.status is Status.CAPPED and choices.raise_cap is None)


def _decisions(choices: Choices) -> list[Decision]:
    decisions: list[Decision] = []
    if choices.raise_cap is not None:
        decisions.append(Decision(what="raise_cap", value=choices.raise_cap, by=choices.by))
    if choices.on_unknown is not None:
        decisions.append(Decision(what="on_unknown", value=choices.on_unknown.value, by=choices.by))
    if choices.accept_divergence:
        decisions.append(Decision(what="accept_divergence", by=choices.by))
    return decisions
