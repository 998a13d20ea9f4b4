"""The fold of a journal into a RunView, and state.json, which keeps one for tools. The journal alone is the truth."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from cloche_guest import codec

from engine.errors import EngineFailure
from engine.files import write_atomic
from engine.jsontext import compact
from engine.run.events import CallCompleted, CallFailed, CallStarted, Decision, ErrorText, RunWaiting
from engine.run.folder import Run, read_state
from engine.run.grouping import Grouping
from engine.run.history import Generation, History, Record
from engine.run.spec import RunSpec
from engine.run.status import Status
from engine.run.view import (
    ArtifactView,
    CallView,
    Clipped,
    DecisionView,
    GenerationView,
    Node,
    OriginView,
    RunView,
)
from engine.run.wording import clean

ARGUMENT_CHARACTERS = 300
RESULT_CHARACTERS = 2048
ERROR_CHARACTERS = 2048


def view_of(run: Run) -> RunView:
    """The run as it stands now, folded from its journal; a stale state.json is brought up to date on the way.

    Raises:
        JournalDamaged: names what does not hold what was recorded.
    """
    owned = run.is_owned()
    journal, history = run.read()
    view = project(run, history, owned=owned)
    if not owned and _is_stale(run, view, journal.head):
        with suppress(EngineFailure):  # a copy for tools; the journal is what counts
            write_state(run, view, size=journal.size + journal.torn, head=journal.head)
    return view


def _is_stale(run: Run, view: RunView, head: str) -> bool:
    known = read_state(run.state_path)
    if known is None or known.get("head") != head:
        return True
    kept = known.get("view")
    return not isinstance(kept, dict) or kept.get("status") != view.status.value


def write_state(run: Run, view: RunView, *, size: int, head: str) -> None:
    """Replace state.json. `size` and `head` belong to the journal that the view was folded from."""
    about = json.dumps({"version": 1, "seq": view.seq, "size": size, "head": head})
    raw = f'{about[:-1]}, "view": {view.model_dump_json()}}}'.encode()
    write_atomic(run.state_path, raw, durable=False)


@dataclass
class Shown:
    """Calls as they were shown last, by what could change of them: a run that goes on shows most of them again."""

    calls: dict[tuple[object, ...], CallView] = field(default_factory=dict)


def project(run: Run, history: History, *, owned: bool, shown_before: Shown | None = None) -> RunView:
    """The view of a fold. `owned`: a living process executes the run; without one, a run that did not end is interrupted.

    `shown_before` is kept between projections of one claimed run, and makes the next one cheaper.
    """
    spec = run.spec
    status, reason, message = standing(history, owned)
    end = history.finished
    shown = [records[-1] for records in history.places.values()]
    return RunView(
        seq=history.seq,
        **_fixed(spec),
        status=status,
        reason=reason,
        message=message,
        error=end.error if end else None,
        result=_result(run, history),
        ended_at=history.generations[-1].ended_at if end else None,
        active_s=round(sum(generation.active_s for generation in history.generations), 6),
        executions=history.executions,
        cap=history.cap(spec.cap),
        calls_made=len(shown),
        failed_calls=sum(isinstance(record.outcome, CallFailed) for record in shown),
        generations=_generations(history, owned),
        calls=_tree(history, owned, shown_before or Shown()),
        artifacts=[ArtifactView(**artifact.body()) for artifact in history.artifacts.values()],
        deliveries=[record.seq for record in shown if record.outcome and "delivers" in record.outcome.facts],
        unasked=list(end.unasked) if end else [],
    )


def _fixed(spec: RunSpec) -> dict[str, Any]:
    return {
        "run_id": spec.run_id,
        "kind": spec.kind,
        "session": spec.session,
        "forked_from": OriginView(run=spec.forked_from.run, seq=spec.forked_from.seq) if spec.forked_from else None,
        "workflow_id": spec.workflow_id,
        "revision": spec.revision,
        "tree_id": spec.tree_id,
        "snapshot_digest": spec.snapshot_digest,
        "pins": spec.pins,
        "permissions": list(spec.permissions),
        "workspace": spec.workspace,
        "model": spec.model,
        "task": clip(spec.task, RESULT_CHARACTERS),
        "created_at": spec.created_at,
    }


def standing(history: History, owned: bool) -> tuple[Status, str, str]:
    """Status, reason, and the reason in a sentence."""
    end = history.finished
    if end is not None:
        return end.status, end.reason, end.message
    wait = history.waiting
    if wait is not None and (owned or wait.reason == "person"):
        return Status.WAITING, wait.reason, _waits_for(history, wait)
    if owned:
        return Status.RUNNING, "", ""
    if not history.generations:
        return Status.INTERRUPTED, "not_started", "the run was created and nothing was executed yet"
    return Status.INTERRUPTED, "owner_lost", "the process that executed it is gone"


def _waits_for(history: History, wait: RunWaiting) -> str:
    first = history.records[wait.calls[0]]
    others = f" and {len(wait.calls) - 1} more" if len(wait.calls) > 1 else ""
    what = "an answer to" if first.is_question else "the outcome of"
    return f"the run waits, without a cell, for {what} {first.key.fn}() at {first.started.site or 'an unknown place'}{others}"


def _result(run: Run, history: History) -> Clipped | None:
    end = history.finished
    if end is None or end.status is not Status.COMPLETED:
        return None
    return clip(run.value(end.result, end.blob), RESULT_CHARACTERS)


def clip(encoded: Any, limit: int) -> Clipped:
    """JSON text of an encoded value for people."""
    text = codec.text(encoded)
    return Clipped(text=clean(text, limit), size=len(text.encode()), whole=len(text) <= limit)


def _generations(history: History, owned: bool) -> list[GenerationView]:
    replayed = _replayed(history)
    return [_generation(one, history, owned, replayed[one.number]) for one in history.generations]


def _replayed(history: History) -> list[int]:
    """For each generation the calls whose outcome an earlier one had and that it did not execute again."""
    known = [0] * (history.generation + 2)
    for records in history.places.values():
        first = min((record.generation for record in records if record.outcome is not None), default=None)
        if first is not None:
            known[first + 1] += 1
            for number in {record.generation for record in records if record.generation > first}:
                known[number] -= 1
                known[number + 1] += 1
    return list(accumulate(known))


def _generation(generation: Generation, history: History, owned: bool, replayed: int) -> GenerationView:
    cell, gone = generation.cell, generation.cell_end
    status, reason = _generation_standing(generation, running=owned and generation.number == history.generation)
    return GenerationView(
        number=generation.number,
        started_at=generation.started_at,
        active_s=round(generation.active_s, 6),
        status=status,
        reason=reason,
        message=generation.finished.message if generation.finished else "",
        replayed=replayed if cell else 0,
        executed=len(started := history.starts.get(generation.number, [])),
        unknown=sum(_is_unknown(record, history, owned) for record in started),
        decisions=[_decision(decision) for decision in generation.decisions if not decision.of],
        pid=generation.started.pid,
        host=generation.started.host,
        torn=generation.started.torn,
        cell=cell.cell if cell else "",
        image=cell.image if cell else "",
        runtime=cell.runtime if cell else "",
        cause=gone.cause if gone else "",
        detail=gone.detail if gone else "",
        exit=gone.exit if gone else None,
        stragglers=gone.stragglers if gone else 0,
        notes=list(gone.notes) if gone else [],
        usage=dict(gone.usage) if gone else {},
        stdout_bytes=sum(output.size for output in generation.outputs if output.stream == "stdout"),
        stderr_bytes=sum(output.size for output in generation.outputs if output.stream == "stderr"),
        cut_bytes=sum(output.cut for output in generation.outputs),
    )


def _is_unknown(record: Record, history: History, owned: bool) -> bool:
    """True for an attempt whose end nobody saw; a timer that was cut off is none."""
    if record.outcome is not None or record.started.kind == "timer":
        return False
    return _call_status(record, history, owned) == "unknown"


def _generation_standing(generation: Generation, *, running: bool) -> tuple[Status, str]:
    if generation.finished is not None:
        return generation.finished.status, generation.finished.reason
    if generation.waiting is not None:
        return Status.WAITING, generation.waiting.reason
    return (Status.RUNNING, "") if running else (Status.INTERRUPTED, "owner_lost")


def _tree(history: History, owned: bool, before: Shown) -> list[Node]:
    grouping = Grouping()
    causes = _causes(history)
    decided: dict[int, list[DecisionView]] = {}
    for decision in history.decisions:
        decided.setdefault(decision.of, []).append(_decision(decision))
    known, before.calls = before.calls, {}
    for records in history.places.values():
        newest = records[-1]
        ended = causes.get(newest.seq, 0)
        status = _call_status(newest, history, owned)
        replayed = newest.outcome is not None and newest.generation < history.generation
        decisions = [one for record in records for one in decided.get(record.seq, ())] if decided else []
        changing = (newest.seq, len(records), status, replayed, ended, len(decisions))
        call = known.get(changing) or _call(
            records, status=status, replayed=replayed, ended_generation=ended, decisions=decisions
        )
        before.calls[changing] = call
        grouping.add(newest, call)
    return grouping.top


def _causes(history: History) -> dict[int, int]:
    """The failed calls that ended a program, and the generation in which they did."""
    return {
        seq: generation.number
        for generation in history.generations
        if generation.told_of_the_program and generation.finished is not None
        for seq in (generation.finished.cause, *generation.finished.also)
        if seq
    }


def _decision(decision: Decision) -> DecisionView:
    plain = decision.what in ("raise_cap", "on_unknown")
    return DecisionView(what=decision.what, by=decision.by, of=decision.of, value=decision.value if plain else None)


def _call(
    records: list[Record], *, status: str, replayed: bool, ended_generation: int, decisions: list[DecisionView]
) -> CallView:
    record = records[-1]
    outcome = record.outcome
    return CallView(
        seq=record.seq,
        **record.key._asdict(),
        status=status,
        replayed=replayed,
        attempts=len(records),
        generation=record.generation,
        counted=record.started.counted,
        label=record.started.label,
        site=record.started.site,
        arguments=_arguments(record.started),
        result=_call_result(outcome) if isinstance(outcome, CallCompleted) else "",
        error=_call_error(record),
        started_at=record.started_at,
        duration_s=None if record.ended_at is None else round(record.ended_at - record.started_at, 6),
        facts=dict(outcome.facts) if outcome else {},
        waits_for=record.started.kind if record.started.kind in ("timer", "person") else "",
        ended_generation=ended_generation,
        decisions=decisions,
    )


def _call_status(record: Record, history: History, owned: bool) -> str:
    match record.outcome:
        case CallCompleted():
            return "completed"
        case CallFailed():
            return "failed"
    waited_for = history.waits_for(record)
    if record.dropped and not waited_for:
        return "dropped"
    if record.is_question:
        return "waiting"
    if owned and waited_for:
        return "running"
    running = owned and record.generation == history.generation and not record.lost and history.finished is None
    return "running" if running else "unknown"


def _arguments(started: CallStarted) -> str:
    if started.args_blob:
        return f"(large, in blobs/{started.args_blob[:12]}…)"
    return clean(compact(started.args).decode(), ARGUMENT_CHARACTERS)


def _call_result(outcome: CallCompleted) -> str:
    if outcome.unencodable:
        return ""
    return f"(large, in blobs/{outcome.blob[:12]}…)" if outcome.blob else clean(compact(outcome.result).decode(), 300)


def _call_error(record: Record) -> ErrorText | None:
    outcome = record.outcome
    if isinstance(outcome, CallFailed):
        return ErrorText(type=outcome.type, message=clean(outcome.message, ERROR_CHARACTERS))
    if isinstance(outcome, CallCompleted) and outcome.unencodable:
        return ErrorText(type=UNENCODABLE, message=outcome.unencodable)
    return None


UNENCODABLE = "UnencodableResult"
"""Type name of the CallError that stands for a result which cannot be recorded."""


def result_of(run: Run) -> Any:
    """The whole result of a completed run, in codec form; None for a run that has none.

    Raises:
        JournalDamaged: as `view_of`.
    """
    _, history = run.read()
    end = history.finished
    return None if end is None or end.status is not Status.COMPLETED else run.value(end.result, end.blob)
