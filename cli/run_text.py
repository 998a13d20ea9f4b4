"""A run as text: header, call tree, generations, outputs, result. Pure: a view in, lines out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from engine.run.status import Status
from engine.run.view import CallView, GenerationView, Node, RunView, calls_of

RESULT_CHARACTERS = 2048
ARGUMENT_CHARACTERS = 70

_JSON = json.JSONDecoder()
_NAME = re.compile(r',?"(\w+)":')

MARKS = {"completed": "✓", "failed": "✗", "unknown": "?", "running": "…"}


def counts(view: RunView) -> dict[str, int]:
    """How many calls stand how; `replayed` and `executed` are those of the newest generation."""
    calls = calls_of(view.calls)
    newest = len(view.generations)
    return {
        "calls": len(calls),
        "completed": sum(call.status == "completed" for call in calls),
        "failed": sum(call.status == "failed" for call in calls),
        "unknown": sum(call.status == "unknown" for call in calls),
        "replayed": sum(call.replayed for call in calls),
        "executed": sum(call.generation == newest and not call.replayed for call in calls),
    }


def headline(view: RunView) -> str:
    """One line: which run, how it stands, what it took."""
    reason = f" ({view.reason})" if view.reason else ""
    failed = f", {view.failed_calls} failed" if view.failed_calls else ""
    took = f"{view.calls_made} calls{failed}, {view.active_s:.1f} s active"
    return f"{view.workflow_id} {view.run_id}: {view.status.value}{reason}, {took}"


def rendered(view: RunView, *, folder: Path) -> str:
    """The whole story, as `cloche runs show` prints it. `folder` is the run's own."""
    return "\n".join(
        [*_header(view), "", *_calls(view), "", *_generations(view), *_outputs(view, folder), *_end(view)]
    ).rstrip("\n")


def _header(view: RunView) -> Iterator[str]:
    reason = f" ({view.reason})" if view.reason else ""
    yield f"{view.workflow_id}  {view.run_id}  {view.status.value}{reason}"
    yield (
        f"  generations {len(view.generations)}, active {view.active_s:.1f} s, executions {view.executions}/{view.cap}, "
        f"failed calls {view.failed_calls}"
    )
    newest = view.generations[-1] if view.generations else None
    yield f"  revision  {view.revision}"
    for name, pin in view.pins.items():
        yield f"  pin       {name} {pin}"
    yield f"  snapshot  {view.snapshot_digest}"
    if newest is not None and newest.image:
        yield f"  image     {newest.image}"
        yield f"  runtime   {newest.runtime}"
    if view.model:
        yield f"  model     {'scripted' if view.model.startswith('scripted:') else view.model}"
    yield f"  workspace {view.workspace}"
    if view.task.text not in ('""', "null"):
        yield f"  task      {_clip(view.task.text, 200)}"


def _calls(view: RunView) -> Iterator[str]:
    yield f"calls ({_summary(view)})" if view.calls else "no calls"
    yield from _tree(view.calls, "  ")


def _summary(view: RunView) -> str:
    found = counts(view)
    told = [f"{found['calls']} in all"]
    told += [f"{found[name]} {name}" for name in ("replayed", "failed", "unknown") if found[name]]
    return ", ".join(told)


def _tree(nodes: list[Node], indent: str) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, CallView):
            yield from _call(node, indent)
        else:
            yield f"{indent}▸ {node.kind} {node.name}"
            yield from _tree(node.items, indent + "  ")


def _mark(call: CallView) -> str:
    return "↺" if call.replayed and call.status == "completed" else MARKS[call.status]


def _call(call: CallView, indent: str) -> Iterator[str]:
    parts = [f"{_mark(call)} {call.fn}({_clip(_bare(call.arguments), ARGUMENT_CHARACTERS)})"]
    if call.label:
        parts.append(f"“{_clip(call.label, 60)}”")
    parts.append(_seconds(call.duration_s) if call.duration_s is not None else "…")
    if call.attempts > 1:
        parts.append(f"executed {call.attempts} times")
    parts.append(_short_site(call.site))
    yield indent + "  ".join(parts)
    if call.error is not None:
        yield f"{indent}    {call.error.type}: {_clip(call.error.message, 300)}"


def _bare(arguments: str) -> str:
    """As code writes them, `path="a.txt", offset=0`; from where the text was clipped, as it is."""
    if not arguments.startswith("{"):
        return arguments
    told: list[str] = []
    at = 1
    while named := _NAME.match(arguments, at):
        try:
            _, end = _JSON.raw_decode(arguments, named.end())
        except ValueError:
            return ", ".join([*told, f"{named[1]}={arguments[named.end() :]}"])
        told.append(f"{named[1]}={arguments[named.end() : end]}")
        at = end
    return ", ".join(told)


def _short_site(site: str) -> str:
    return site.removeprefix("workflows/")


def _seconds(value: float) -> str:
    return f"{value * 1000:.1f} ms" if value < 1 else f"{value:.2f} s"


def _generations(view: RunView) -> Iterator[str]:
    for generation in view.generations:
        yield f"generation {generation.number}  {_moment(generation.started_at)}  {_how(generation)}"
        for note in generation.notes:
            yield f"  {note}"


def _how(generation: GenerationView) -> str:
    reason = f" ({generation.reason})" if generation.reason else ""
    told = f"{generation.status.value}{reason}, {generation.active_s:.1f} s active"
    if generation.cause:
        detail = f" {generation.detail}" if generation.detail else ""
        told += f"; cell {generation.cell}: {generation.cause}{detail}"
    usage = generation.usage
    figures = [
        f"cpu {usage['cpu_s']:.2f} s" if "cpu_s" in usage else "",
        f"memory {usage['peak_memory_bytes'] // (1024 * 1024)} MiB" if "peak_memory_bytes" in usage else "",
    ]
    if any(figures):
        told += f" ({', '.join(figure for figure in figures if figure)})"
    if generation.stragglers:
        told += f"; {generation.stragglers} stragglers ended"
    if generation.torn:
        told += f"; {generation.torn} bytes of a torn line cut off"
    return told


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
        clipped = _clip(view.result.text, RESULT_CHARACTERS)
        more = (
            ""
            if view.result.whole and clipped == view.result.text
            else f"   (of {view.result.size} bytes; --result for all)"
        )
        yield f"result  {clipped}{more}"


def _moment(unix: float) -> str:
    return f"{datetime.fromtimestamp(unix, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _clip(text: str, most: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"
