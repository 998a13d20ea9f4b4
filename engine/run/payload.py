"""What leaves a run into a model (a chat, another agent, a tool's answer): the public payload, bounded and without arguments.

People see results, errors and arguments through `RunView`. A model sees a result only when the workflow handed it out with
`deliver(result=…)` or when the task asked for it; unclear means no.
"""

from __future__ import annotations

from typing import Any

from engine.run.folder import Run
from engine.run.history import History
from engine.run.projection import RESULT_CHARACTERS, result_of
from engine.run.status import Status
from engine.run.view import RunView, calls_of
from engine.run.wording import clean

CALLS_TOLD = 200


def public_payload(run: Run, view: RunView, *, result_wanted: bool = False) -> dict[str, Any]:
    """The payload of a run, JSON. `result_wanted`: the task's own words ask for the result and nothing in them forbids it.

    `calls` holds at most `CALLS_TOLD` (`calls_made` says how many there are). `result` is there when `return_result` is true, in
    codec form: what was delivered last, else, when wanted, what the run returned.

    Raises:
        JournalDamaged: a value cannot be read back.
    """
    delivered, given = _delivered(run)
    returns = view.status is Status.COMPLETED and (given or result_wanted)
    payload: dict[str, Any] = {
        "status": view.status.value,
        "reason": view.reason,
        "task": clean(run.spec.task, RESULT_CHARACTERS) if isinstance(run.spec.task, str) else view.task.text,
        "run_id": view.run_id,
        "workflow_id": view.workflow_id,
        "revision": view.revision,
        "pins": dict(view.pins),
        "calls": _calls(view),
        "calls_made": view.calls_made,
        "summary": summary(view),
        "return_result": returns,
    }
    if returns:
        payload["result"] = delivered if given else result_of(run)
    return payload


def summary(view: RunView) -> str:
    """One sentence for a model: how the run stands and how its calls went. Failed calls are never left out."""
    failed = f", {view.failed_calls} of them failed" if view.failed_calls else ""
    reason = f" ({view.reason})" if view.reason else ""
    return f"The run of {view.workflow_id} is {view.status.value}{reason}; it made {view.calls_made} calls{failed}."


def _calls(view: RunView) -> list[dict[str, Any]]:
    return [
        {
            "scope": call.scope,
            "function": call.fn,
            "n": call.n,
            "digest": call.digest,
            "status": call.status,
            "started_at": call.started_at,
            "duration_s": call.duration_s,
        }
        for call in calls_of(view.calls)[:CALLS_TOLD]
    ]


def _delivered(run: Run) -> tuple[Any, bool]:
    """The value that the workflow handed out last, and whether there is one."""
    _, history = run.read()
    for record in reversed(_deliveries(history)):
        arguments = run.value(record.started.args, record.started.args_blob)
        if isinstance(arguments, dict) and "result" in arguments:
            return arguments["result"], True
    return None, False


def _deliveries(history: History) -> list[Any]:
    records = [records[-1] for records in history.places.values()]
    return [record for record in records if record.outcome and record.outcome.facts.get("delivers") == "result"]
