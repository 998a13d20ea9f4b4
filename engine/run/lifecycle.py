"""A run from its claim to its end: one generation in one cell, from the first one as from an interrupted one.

    claim ─▶ prove older cells gone ─▶ run.started ─▶ cell.started ─▶ pass ─▶ cell.ended ─▶ run.finished

Everything a resume needs is in the run's folder; nothing is searched, chosen or updated on the way. A generation ends in its
record or, when its owner dies, without one, and the next one goes on from there.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import structlog
from cloche_guest import codec

from engine.errors import CellLost, Conflict, EngineFailure, RunCancelled, SandboxError, UsageError
from engine.run.blobs import text_of
from engine.run.calls import CallHandler, RunContext
from engine.run.cells import CellFactory, RunCell
from engine.run.ending import CANCELLED, DEADLINE, INTERRUPTED, Ending, engine_failed, sandbox_failed, settle
from engine.run.events import (
    CallCompleted,
    CallFailed,
    CallUnknown,
    CellEnded,
    CellStarted,
    Decision,
    Event,
    RunFinished,
    RunStarted,
)
from engine.run.history import Record
from engine.run.kept import Kept
from engine.run.passing import Pass, PassPolicy
from engine.run.projection import project, view_of, write_state
from engine.run.replay import OnUnknown, unasked
from engine.run.status import Status
from engine.run.store import Recorder, Run, RunOwned, Stored, claimed, this_process
from engine.run.view import RunView
from engine.run.wording import MESSAGE_CHARACTERS, clean
from engine.sandbox.jobs import RunJob
from engine.sandbox.outcome import Cause, CellEnd

STATE_S = 0.5
"""state.json is not rewritten more often than this while a run goes on, nor for more than a twentieth of the time."""

CANCEL_WAIT_S = 10.0
_CANCEL_POLL_S = 0.05

log = structlog.get_logger()

ProveGone = Callable[[str], Awaitable[None]]
"""Kills what is left of a cell, by id, and returns when the engine no longer knows it; raises SandboxError otherwise."""


class RunEndedAlready(Conflict):
    """The run ended; its status is never overwritten."""

    code = "run_ended_already"


class StillCapped(UsageError):
    """The cap that was asked for lets no further call through."""

    code = "cap_too_low"


class TaskTooLarge(UsageError):
    """The task does not fit through the exchange."""

    code = "task_too_large"


@dataclass(frozen=True)
class Limits:
    """Bounds of the operator. `output_bytes` is per stream and generation."""

    value_bytes: int = 64 * 1024 * 1024
    output_bytes: int = 8 * 1024 * 1024
    grace_s: float = 5.0


@dataclass(frozen=True)
class Choices:
    """What a person decided for this generation: see `engine.run.replay` and `runs resume` in docs/reference/cli.md."""

    on_unknown: OnUnknown | None = None
    accept_divergence: bool = False
    raise_cap: int | None = None
    by: str = ""


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
    is recorded, and the cancellation goes on.

    Raises:
        RunOwned: another process executes it.
        RunCancelled: it was cancelled, which is final.
        SandboxError: a cell of a dead owner could not be proven gone; nothing was begun.
        StillCapped: the raised cap is not above the executions made.
        TaskTooLarge: the task is larger than a value may be.
        JournalDamaged, StorageFull, EngineFailure: the record cannot be read or written; recorded as far as possible.
    """
    chosen, bounds = choices or Choices(), limits or Limits()
    _check_task(run, bounds)
    with claimed(run) as recorder:
        if not _goes_on(recorder, chosen):
            return view_of_claimed(recorder)
        await _leave_nothing_behind(recorder, prove_gone)
        _begin(recorder, chosen)
        generation = _Driver(recorder, snapshot, cells, handlers, bounds, chosen, watch)
        return await generation.run()


async def cancel(run: Run, *, by: str, prove_gone: ProveGone, wait_s: float = CANCEL_WAIT_S) -> RunView:
    """Cancel a run for good. Its owner is asked to and waited for; without a living owner it is ended here.

    Returns the run as it stands, which after `wait_s` seconds may still be `running` with the request standing. A run that
    is cancelled already is returned.

    Raises:
        RunEndedAlready: it completed, failed or was capped.
        SandboxError: its last cell could not be proven gone; the request stands.
    """
    view = view_of(run)
    if view.status is Status.CANCELLED:
        return view
    _refuse_to_cancel(view)
    run.cancel_path.write_text(json.dumps({"by": by}), encoding="utf-8")
    try:
        with anyio.move_on_after(wait_s):
            while run.is_owned():
                await anyio.sleep(_CANCEL_POLL_S)
        with claimed(run) as recorder:
            return await _cancel_unowned(recorder, by, prove_gone)
    except RunOwned:
        return view_of(run)


async def _cancel_unowned(recorder: Recorder, by: str, prove_gone: ProveGone) -> RunView:
    if not recorder.history.is_final:
        view = project(recorder.run, recorder.history, owned=False)
        try:
            _refuse_to_cancel(view)
        except RunEndedAlready:
            recorder.run.cancel_path.unlink(missing_ok=True)
            raise
        await _leave_nothing_behind(recorder, prove_gone)
        if recorder.history.generation == 0:
            recorder.record(_started(recorder))
        recorder.record(Decision(what="cancel", by=by), _finished(CANCELLED))
    recorder.run.cancel_path.unlink(missing_ok=True)
    view = view_of_claimed(recorder)
    _refuse_to_cancel(view)
    return view


def _refuse_to_cancel(view: RunView) -> None:
    if view.status in (Status.COMPLETED, Status.FAILED, Status.CAPPED):
        raise RunEndedAlready(f"run {view.run_id} is {view.status.value} already.", fix="There is nothing to cancel.")


def decide_unknown(run: Run, seq: int, *, what: str, value: Any = None, by: str = "") -> None:
    """Settle the call of unknown outcome whose record has `s` = `seq`: `rerun`, `treat-as-failed`, or `value` (codec form).

    One decision covers one attempt.

    Raises:
        UsageError: there is no such call, its outcome is known, or `what` is none of the three.
        RunOwned: the run is being executed.
    """
    with claimed(run) as recorder:
        record = recorder.history.records.get(seq)
        if record is None or record.outcome is not None or recorder.history.is_final:
            raise UsageError(f"call {seq} of run {run.run_id} has no unknown outcome.", fix="`cloche runs show` tells.")
        recorder.record(*_decision(run, record, what, value, by))
        _write(recorder)


def _decision(run: Run, record: Record, what: str, value: Any, by: str) -> list[Event]:
    match what:
        case "rerun":
            return [Decision(what="rerun", of=record.seq, by=by)]
        case "treat-as-failed":
            told = "a person decided that this call, whose outcome was unknown, counts as failed"
            failed = CallFailed(of=record.seq, type="UnknownOutcome", message=told)
            return [Decision(what="treat-as-failed", of=record.seq, by=by), failed]
        case "value":
            completed = CallCompleted(of=record.seq, **run.keep(value).named("result", "blob"))
            return [Decision(what="value", of=record.seq, by=by), completed]
    raise UsageError(f"{what!r} is no decision.", fix="Use rerun, treat-as-failed or value.")


def _check_task(run: Run, limits: Limits) -> None:
    size = len(text_of(run.spec.task))
    if size > limits.value_bytes:
        raise TaskTooLarge(
            f"the task of run {run.run_id} has {size:,} bytes; a value has at most {limits.value_bytes:,}.",
            fix="Put what is large into a file of the workspace.",
        )


def _goes_on(recorder: Recorder, choices: Choices) -> bool:
    """False for a run that stays as it is."""
    history, end = recorder.history, recorder.history.finished
    if end is not None and end.status is Status.CANCELLED:
        raise RunCancelled(f"run {recorder.run.run_id} was cancelled.", fix="Start a new run.")
    if end is not None and end.status is Status.COMPLETED:
        return False
    if choices.raise_cap is not None and choices.raise_cap <= history.executions:
        raise StillCapped(
            f"run {recorder.run.run_id} made {history.executions} executions; a cap of {choices.raise_cap} stops it again.",
            fix=f"Raise the cap above {history.executions}.",
        )
    return not (end is not None and end.status is Status.CAPPED and choices.raise_cap is None)


async def _leave_nothing_behind(recorder: Recorder, prove_gone: ProveGone) -> None:
    """Before anything is begun: no cell of a dead owner lives, and its open calls are known to be unknown."""
    for cell in recorder.history.unended_cells():
        await prove_gone(cell)
        recorder.record(CellEnded(cell=cell, cause="owner_lost", detail="removed by a later owner"))
    lost = [CallUnknown(of=record.seq) for record in recorder.history.open_records()]
    if lost:
        recorder.record(*lost)


def _started(recorder: Recorder) -> RunStarted:
    owner = this_process()
    return RunStarted(pid=owner.pid, host=owner.host, torn=recorder.torn)


def _begin(recorder: Recorder, choices: Choices) -> None:
    decisions: list[Decision] = []
    if choices.raise_cap is not None:
        decisions.append(Decision(what="raise_cap", value=choices.raise_cap, by=choices.by))
    if choices.on_unknown is not None:
        decisions.append(Decision(what="on_unknown", value=choices.on_unknown.value, by=choices.by))
    if choices.accept_divergence:
        decisions.append(Decision(what="accept_divergence", by=choices.by))
    recorder.record(_started(recorder), *decisions)
    log.info("run.started", run=recorder.run.run_id, generation=recorder.history.generation)


def _finished(ending: Ending, **fields: Any) -> RunFinished:
    return RunFinished(
        status=ending.status,
        reason=ending.reason,
        message=clean(ending.message, MESSAGE_CHARACTERS),
        error=ending.error,
        **fields,
    )


def view_of_claimed(recorder: Recorder) -> RunView:
    """The view of a claimed run that is not being executed any more; state.json is brought up to date."""
    return _write(recorder)


def _write(recorder: Recorder) -> RunView:
    view = project(recorder.run, recorder.history, owned=False)
    with suppress(EngineFailure):  # a copy; the journal is what counts
        write_state(recorder.run, view, size=recorder.size, head=recorder.head)
    return view


@dataclass
class _Driver:
    """One generation, begun."""

    recorder: Recorder
    snapshot: Path
    cells: CellFactory
    handlers: Mapping[str, CallHandler]
    limits: Limits
    choices: Choices
    watch: Callable[[RunView], None] | None
    shown_at: float = float("-inf")
    pause_s: float = STATE_S

    def __post_init__(self) -> None:
        self.run_ = self.recorder.run
        self.clock = self.run_.clock
        self.began = self.clock.monotonic_s()

    async def run(self) -> RunView:
        """To its end, which is recorded whatever it is."""
        self._show()
        try:
            ending, passed = await self._generation()
            self._finish(ending, passed)
        except asyncio.CancelledError:
            self._finish(INTERRUPTED, None)
            raise
        except SandboxError as error:
            self._finish(sandbox_failed(error), None)
        except Exception as error:
            with suppress(EngineFailure):  # the first failure is the one to tell
                self._finish(engine_failed(error), None)
            raise
        return self._show()

    async def _generation(self) -> tuple[Ending, Pass | None]:
        left = self._time_left()
        if left <= 0:
            return DEADLINE, None
        generation = self.recorder.history.generation
        async with self.cells(run_id=self.run_.run_id, generation=generation) as cell:
            self.recorder.record(CellStarted(cell=cell.cell_id, image=cell.image, runtime=cell.runtime))
            kept = Kept(self.run_.folder, generation, self.limits.output_bytes)
            passing = self._pass(cell, kept, left)
            failure: SandboxError | None = None
            try:
                await cell.deliver(self._job(left), self.snapshot)
                await passing.run()
            except SandboxError as error:
                failure = error
            except BaseException:
                with anyio.CancelScope(shield=True), suppress(SandboxError):
                    await self._end_cell(cell, kept)
                raise
            with anyio.CancelScope(shield=True):
                gone = await self._end_cell(cell, kept)
            return self._ending(passing, gone, failure), passing

    def _pass(self, cell: RunCell, kept: Kept, left: float) -> Pass:
        spec = self.run_.spec
        context = RunContext(
            run_id=spec.run_id,
            workflow_id=spec.workflow_id,
            snapshot=self.snapshot,
            workspace=Path(spec.workspace),
            permissions=frozenset(spec.permissions),
            model=spec.model,
        )
        policy = PassPolicy(
            deadline=self.clock.monotonic_s() + left,
            grace_s=self.limits.grace_s,
            value_bytes=self.limits.value_bytes,
            on_unknown=self.choices.on_unknown,
            accept_divergence=self.choices.accept_divergence,
        )
        return Pass(
            self.recorder,
            cell=cell,
            handlers=self.handlers,
            context=context,
            policy=policy,
            kept=kept,
            progress=self._show_when_due,
        )

    def _job(self, left: float) -> RunJob:
        spec = self.run_.spec
        return RunJob(entry=spec.workflow_id, task=spec.task, seed=spec.seed, deadline_s=left)

    async def _end_cell(self, cell: RunCell, kept: Kept) -> CellEnd:
        """Have the cell gone and that recorded. A cell that cannot be proven gone keeps its record open for the next owner."""
        gone = await cell.finish()
        usage = {name: value for name, value in vars(gone.accounting).items() if value}
        ended = CellEnded(
            cell=cell.cell_id,
            cause=gone.cause.value,
            detail=clean(gone.detail, 500),
            exit=gone.exit,
            stragglers=gone.stragglers,
            left=gone.left_behind,
            notes=[clean(note, 500) for note in gone.notes],
            usage=usage,
        )
        self.recorder.record(*kept.close(), ended)
        return gone

    def _ending(self, passing: Pass, gone: CellEnd, failure: SandboxError | None) -> Ending:
        if passing.stop is not None:
            return passing.stop
        if failure is None:
            return settle(passing.result, gone)
        limits = (Cause.DEADLINE, Cause.LIMIT_MEMORY, Cause.LIMIT_MESSAGES, Cause.LIMIT_OUTPUT_FILES)
        if isinstance(failure, CellLost) and gone.cause in limits:
            return settle(None, gone)
        return sandbox_failed(failure)

    def _time_left(self) -> float:
        """Seconds of active time and of total time that are left, the smaller one."""
        spec, history = self.run_.spec, self.recorder.history
        active = sum(generation.active_s for generation in history.generations[:-1])
        total = self.clock.now().timestamp() - spec.created_at
        return min(spec.active_s - active, spec.total_s - total)

    def _finish(self, ending: Ending, passed: Pass | None) -> None:
        history = self.recorder.history
        events: list[Event] = [CallUnknown(of=record.seq) for record in history.open_records()]
        fields: dict[str, Any] = {"active_s": round(self.clock.monotonic_s() - self.began, 6)}
        if ending is CANCELLED:
            events.append(Decision(what="cancel", by=self._canceller()))
        if ending.status is Status.COMPLETED and passed is not None and passed.result is not None:
            fields |= self._result(passed.result.encoded).named("result", "blob")
            fields["unasked"] = unasked(history, passed.asked)[:100]
        elif passed is not None and ending.reason == "program":
            fields["cause"] = passed.cause
        self.recorder.record(*events, _finished(ending, **fields))
        log.info("run.finished", run=self.run_.run_id, status=ending.status.value, reason=ending.reason)
        if ending is CANCELLED:
            self.run_.cancel_path.unlink(missing_ok=True)

    def _result(self, encoded: Any) -> Stored:
        codec.check(encoded)
        return self.run_.keep(encoded)

    def _canceller(self) -> str:
        try:
            found = json.loads(self.run_.cancel_path.read_bytes())
            return str(found["by"]) if isinstance(found, dict) else ""
        except (OSError, ValueError, KeyError):
            return ""

    def _show_when_due(self) -> None:
        if self.clock.monotonic_s() - self.shown_at >= self.pause_s:
            self._show()

    def _show(self) -> RunView:
        """Bring state.json and the watcher up to date."""
        before = self.clock.monotonic_s()
        history = self.recorder.history
        view = project(self.run_, history, owned=history.finished is None)
        with suppress(EngineFailure):  # a copy; the journal is what counts
            write_state(self.run_, view, size=self.recorder.size, head=self.recorder.head)
        if self.watch is not None:
            self.watch(view)
        self.shown_at = self.clock.monotonic_s()
        self.pause_s = max(STATE_S, 20 * (self.shown_at - before))
        return view
