"""What a person decides about a run from outside: to cancel it, or how a call of unknown outcome is to be taken."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anyio

from engine.errors import Conflict, UsageError
from engine.files import write_atomic
from engine.run import answers
from engine.run.claim import Recorder, RunOwned, claimed
from engine.run.ending import CANCELLED
from engine.run.events import CallCompleted, CallFailed, Decision, Event
from engine.run.folder import Run
from engine.run.handover import ProveGone, leave_nothing_behind, run_finished, run_started, write_view
from engine.run.history import History, Record
from engine.run.named import named_call
from engine.run.projection import project, view_of
from engine.run.status import Status
from engine.run.view import RunView

CANCEL_WAIT_S = 10.0
_CANCEL_POLL_S = 0.02


class RunEndedAlready(Conflict):
    """The run ended; its status is never overwritten."""

    code = "run_ended_already"


async def cancel(run: Run, *, by: str, prove_gone: ProveGone) -> RunView:
    """Cancel a run for good. Its owner is asked to and waited for; without a living owner it is ended here.

    Returns the run as it stands, which after `CANCEL_WAIT_S` may still be `running` with the request standing. A run that
    is cancelled already is returned.

    Raises:
        RunEndedAlready: it completed, failed or was capped.
        SandboxError: its last cell could not be proven gone; the request stands.
        StorageFull, EngineFailure: the request could not be written.
    """
    view = view_of(run)
    if view.status is Status.CANCELLED:
        run.cancel_path.unlink(missing_ok=True)  # a canceller that was killed may have left its request
        return view
    _refuse_to_cancel(view)
    write_atomic(run.cancel_path, json.dumps({"by": by}).encode(), durable=False)
    try:
        with anyio.move_on_after(CANCEL_WAIT_S):
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
        await leave_nothing_behind(recorder, prove_gone)
        if recorder.history.generation == 0:
            recorder.record(run_started(recorder))
        recorder.record(Decision(what="cancel", by=by), run_finished(CANCELLED))
    recorder.run.cancel_path.unlink(missing_ok=True)
    view = write_view(recorder)
    _refuse_to_cancel(view)
    return view


def _refuse_to_cancel(view: RunView) -> None:
    if view.status in (Status.COMPLETED, Status.FAILED, Status.CAPPED):
        raise RunEndedAlready(f"run {view.run_id} is {view.status.value} already.", fix="There is nothing to cancel.")


class OutcomeKnown(Conflict):
    """How the call ended is known, or it was made again; there is nothing to decide about this attempt."""

    code = "outcome_known"


class IsQuestion(UsageError):
    """The call is a question to a person; it is answered, not decided."""

    code = "call_is_question"


class NoQuestion(UsageError):
    """The call is no question to a person, or none is open."""

    code = "no_question"


def answer(
    run: Run, seq: int, value: Any, *, check: Callable[[Any, Any], Any] = lambda _args, value: value, by: str = ""
) -> bool:
    """Answer the question whose record has `s` = `seq` with `value` (codec form); a resume then goes on with it.

    True when it is recorded; False when another process executes the run: the answer is left to it, and it goes on by itself.

    `check` gets the question's arguments and the answer, both in codec form, and gives what is recorded, or raises UsageError.

    Raises:
        CallNotFound: there is no such call. NoQuestion: it is none. OutcomeKnown: it was answered.
        UsageError: `check` refuses the answer. RunEndedAlready: the run is over.
        StorageFull, EngineFailure: the answer could not be kept.
    """
    try:
        with claimed(run) as recorder:
            given = _checked(run, recorder.history, seq, value, check)
            answers.record(recorder, seq, given, by=by)
            write_view(recorder)
            return True
    except RunOwned:
        _, history = run.read()
        answers.leave(run, seq, _checked(run, history, seq, value, check), by=by)
        return False


def _checked(run: Run, history: History, seq: int, value: Any, check: Callable[[Any, Any], Any]) -> Any:
    record = _undecided(run, history, seq)
    if not record.is_question:
        raise NoQuestion(
            f"call {seq} of run {run.run_id} is a call of {record.key.fn}(), no question.",
            fix=f"`cloche runs decide {run.run_id} {seq}` decides about a call of unknown outcome.",
        )
    return check(run.value(record.started.args, record.started.args_blob), value)


def decide_unknown(run: Run, seq: int, *, what: str, value: Any = None, by: str = "") -> None:
    """Settle the call of unknown outcome whose record has `s` = `seq`: `rerun`, `treat-as-failed`, or `value` (codec form).

    One decision covers one attempt.

    Raises:
        CallNotFound: there is no such call. OutcomeKnown: how it ended is known, or it was made again. IsQuestion: it is one.
        UsageError: `what` is none of the three.
        RunOwned: the run is being executed. RunEndedAlready: it is over.
    """
    with claimed(run) as recorder:
        record = _undecided(run, recorder.history, seq)
        if record.is_question:
            raise IsQuestion(
                f"call {seq} of run {run.run_id} is a question to a person.",
                fix=f"`cloche runs answer {run.run_id} {seq} --value JSON` answers it.",
            )
        recorder.record(*_decision(run, record, what, value, by))
        write_view(recorder)


def open_question(run: Run) -> int:
    """The number of the only question of the run that waits for an answer.

    Raises:
        NoQuestion: none is open, or more than one.
        JournalDamaged: the record cannot be read.
    """
    _, history = run.read()
    found = [record.seq for record in history.open_questions()]
    if len(found) != 1:
        told = f"{len(found)} open questions (calls {', '.join(map(str, found))})" if found else "no open question"
        fix = "Name one of them." if found else f"`cloche runs show {run.run_id}` tells how it stands."
        raise NoQuestion(f"run {run.run_id} has {told}.", fix=fix)
    return found[0]


def _undecided(run: Run, history: History, seq: int) -> Record:
    """The record of a call that nobody knows the end of, in a run that may go on."""
    record = named_call(run, history, seq)
    if history.is_final:
        standing = history.finished.status.value if history.finished else ""
        raise RunEndedAlready(f"run {run.run_id} is {standing} already.", fix="There is nothing to decide.")
    newest = history.latest(record.key)
    if newest is not None and newest is not record:
        told = f"call {seq} of run {run.run_id} was made again, as call {newest.seq}."
        raise OutcomeKnown(told, fix="Decide about the newest attempt, if it is unknown.")
    if record.outcome is not None:
        how = "failed" if isinstance(record.outcome, CallFailed) else "completed"
        told = f"call {seq} of run {run.run_id}, {record.key.fn}(), {how}."
        raise OutcomeKnown(told, fix=f"`cloche runs fork {run.run_id} --from {seq}` makes it again in a new run.")
    return record


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
