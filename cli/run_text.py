"""A run as text: header, generations, call tree, outputs, end and what to do now. Pure: a view in, lines out."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from cli.call_text import COLUMNS, MARKS, REPLAYED, CallText, clip
from cli.next_steps import next_steps
from engine.run.status import Status
from engine.run.view import DecisionView, GenerationView, RunView, calls_of

RESULT_CHARACTERS = 2048

HOW_CHARACTERS = 20
"""Characters of how a generation ended that are always shown."""

_ENDS = {
    "owner_lost": "process died",
    "stopped": "was told to stop",
    "unknown_outcome": "stopped, an outcome is unknown",
    "person": "waits for an answer",
    "slow": "waits for a slow call",
    "deadline": "its time was over",
    "diverged": "diverged from its record",
    "sandbox": "sandbox failed",
    "engine": "Cloche itself failed",
}
_DECISIONS = {
    "raise_cap": "raised the cap to {}",
    "on_unknown": "decided about unknown outcomes: {}",
    "accept_divergence": "accepted a divergence",
    "cancel": "cancelled it",
}


def counts(view: RunView) -> dict[str, int]:
    """How many calls stand how; `replayed` and `executed` are those of the newest generation."""
    calls = calls_of(view.calls)
    newest = len(view.generations)
    return {
        "calls": len(calls),
        **{status: sum(call.status == status for call in calls) for status in ("completed", "failed", "unknown")},
        "replayed": sum(call.replayed for call in calls),
        "executed": sum(call.generation == newest and not call.replayed for call in calls),
    }


def headline(view: RunView) -> str:
    """One line: which run, how it stands, what it took."""
    reason = f" ({view.reason})" if view.reason else ""
    failed = f", {view.failed_calls} failed" if view.failed_calls else ""
    took = f"{view.calls_made} calls{failed}, {view.active_s:.1f} s active"
    return f"{view.workflow_id} {view.run_id}: {view.status.value}{reason}, {took}"


def rendered(view: RunView, *, folder: Path, everything: bool = False) -> str:
    """The whole story, as `cloche runs show` prints it. `folder` is the run's own; `everything`: nothing is folded."""
    blocks = [_header(view), _generations(view), _calls(view, everything), [*_outputs(view, folder), *_end(view)]]
    return "\n\n".join("\n".join(block) for block in map(list, blocks) if block)


def _header(view: RunView) -> Iterator[str]:
    reason = f" ({view.reason})" if view.reason else ""
    yield f"{view.workflow_id}  {view.run_id}  {view.status.value}{reason}"
    yield (
        f"  created {_moment(view.created_at)}, generations {len(view.generations)}, active {view.active_s:.1f} s, "
        f"executions {view.executions}/{view.cap}, failed calls {view.failed_calls}"
    )
    newest = view.generations[-1] if view.generations else None
    if view.forked_from is not None:
        yield f"  forked    from {view.forked_from.run}, before its call {view.forked_from.seq}"
    yield f"  revision  {view.revision}"
    for name, pin in view.pins.items():
        yield f"  pin       {name} {pin}"
    yield f"  snapshot  {view.snapshot_digest}"
    if newest is not None and newest.image:
        yield f"  image     {newest.image}"
        yield f"  runtime   {newest.runtime}{_usage(newest)}"
    if view.model:
        yield f"  model     {'scripted' if view.model.startswith('scripted:') else view.model}"
    yield f"  workspace {view.workspace}"
    if view.task.text not in ('""', "null"):
        yield f"  task      {clip(view.task.text, 200)}"


def _usage(generation: GenerationView) -> str:
    usage = generation.usage
    figures = [
        f"cpu {usage['cpu_s']:.2f} s" if "cpu_s" in usage else "",
        f"memory {usage['peak_memory_bytes'] // (1024 * 1024)} MiB" if "peak_memory_bytes" in usage else "",
    ]
    return f" ({', '.join(figure for figure in figures if figure)})" if any(figures) else ""


# generations


def _generations(view: RunView) -> Iterator[str]:
    if view.generations:
        yield "generations"
    wide = max((len(_did(generation)) for generation in view.generations), default=0)
    for generation in view.generations:
        started = datetime.fromtimestamp(generation.started_at, UTC)
        same_day = started.date() == datetime.fromtimestamp(view.created_at, UTC).date()
        head = (
            f"{generation.number:>3}  {f'{started:%H:%M:%S}' if same_day else f'{started:%m-%d %H:%M:%S}'}  "
            f"{generation.active_s:>6.1f} s  pid {generation.pid:<7}  {_did(generation):{wide}}  "
        )
        yield head + clip(_how(generation), max(HOW_CHARACTERS, COLUMNS - len(head)))
        yield from (f"       {remark}" for remark in _remarks(generation))


def _did(generation: GenerationView) -> str:
    unsure = generation.reason == "owner_lost" and not generation.executed
    figures = [
        (f"{REPLAYED} {'≤ ' if unsure else ''}{generation.replayed}", generation.replayed),
        (f"{generation.executed} executed", generation.executed),
        (f"{generation.unknown} unknown", generation.unknown),
    ]
    return ", ".join(text for text, number in figures if number) or "nothing called"


def _how(generation: GenerationView) -> str:
    told = _ENDS.get(generation.reason) or generation.status.value
    if generation.reason == "program":
        told = f"failed: {generation.message}"
    elif generation.reason not in ("", generation.status.value) and generation.reason not in _ENDS:
        told += f" ({generation.reason})"
    if generation.status is Status.COMPLETED or generation.cause in ("", "exit"):
        return told
    return f"{told}, cell removed" if generation.cause == "owner_lost" else f"{told} ({generation.cause})"


def _remarks(generation: GenerationView) -> Iterator[str]:
    yield from (_decided(decision) for decision in generation.decisions)
    if generation.torn:
        yield f"{generation.torn} bytes of a torn line were cut off before it"
    if generation.stragglers:
        yield f"{generation.stragglers} stragglers ended"
    yield from generation.notes


def _decided(decision: DecisionView) -> str:
    told = _DECISIONS.get(decision.what, decision.what).format(decision.value)
    return f"{decision.by or 'a person'} {told}"


# calls


def _calls(view: RunView, everything: bool) -> Iterator[str]:
    if not view.calls:
        yield "no calls"
        return
    yield f"calls ({_summary(view)})"
    calls = calls_of(view.calls)
    end = view.generations[-1] if view.generations else None
    settled = end is not None and (end.status is Status.COMPLETED or end.reason == "program")
    text = CallText(settled=settled, everything=everything, width=2 + len(str(max(call.seq for call in calls))))
    told = list(text.lines(view.calls))
    yield from told
    if not everything and sum("#" in line[: text.width] for line in told) < len(calls):
        yield f"{'':{text.width}}  `cloche runs show {view.run_id} --all` shows every call."


def _summary(view: RunView) -> str:
    calls = calls_of(view.calls)
    found = counts(view)
    told = [f"{found['calls']} in all"]
    if replayed := sum(call.replayed and call.status == "completed" for call in calls):
        told.append(f"{REPLAYED} {replayed} replayed")
    for status, mark in MARKS.items():
        number = sum(call.status == status and not (call.replayed and status == "completed") for call in calls)
        told += [f"{mark} {number} {status}"] if number else []
    return ", ".join(told)


# the end


def _outputs(view: RunView, folder: Path) -> Iterator[str]:
    if view.artifacts:
        yield f"files   {folder / 'output'}"
    for artifact in view.artifacts:
        yield f"output  {artifact.path}  {artifact.size} bytes  sha256 {artifact.sha256[:16]}"
    for generation in view.generations:
        if generation.stdout_bytes or generation.stderr_bytes:
            cut = f", {generation.cut_bytes} cut" if generation.cut_bytes else ""
            sizes = f"stdout {generation.stdout_bytes} bytes, stderr {generation.stderr_bytes} bytes{cut}"
            yield f"logs    generation {generation.number}: {sizes}"


def _end(view: RunView) -> Iterator[str]:
    if view.error is not None:
        yield f"error   {view.error.type}: {view.error.message}"
        yield from (f"    {line}" for line in view.error.traceback.rstrip().splitlines()[-30:])
    elif view.message:
        yield f"message {view.message}"
    if view.result is not None and view.status is Status.COMPLETED:
        clipped = clip(view.result.text, RESULT_CHARACTERS)
        whole = view.result.whole and clipped == view.result.text
        yield f"result  {clipped}{'' if whole else f'   (of {view.result.size} bytes; --result for all)'}"
    for step in next_steps(view):
        yield f"next    {step.command}"
        yield f"          {step.does}"


def _moment(unix: float) -> str:
    return f"{datetime.fromtimestamp(unix, UTC):%Y-%m-%d %H:%M:%S} UTC"
