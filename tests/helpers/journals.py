"""Journals changed on purpose: the events of a run are edited and everything that seals them is made anew, so that only the

meaning differs and no damage is left to find.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from engine.files import sha256_hex
from engine.run.events import (
    FIRST_HASH,
    CallCompleted,
    CallDropped,
    CallFailed,
    CallStarted,
    CallUnknown,
    Decision,
    Event,
    Line,
    RunCreated,
    RunFinished,
    dump,
    hash_line,
)
from engine.run.folder import Run
from engine.run.spec import parse_spec

Edit = Callable[[list[Line]], list[Line]]


def doctored(run: Run, edit: Edit, **spec: Any) -> Run:
    """The run with edited lines and changed fields of run.json; numbers, references, hash chain and seals are made anew."""
    lines = edit(list(run.read()[0].lines))
    changed = run.spec.model_copy(update=spec)
    run_json = run.folder / "run.json"
    run_json.write_bytes(changed.to_json())
    seqs = {line.seq: number for number, line in enumerate(lines, start=1)}
    head = FIRST_HASH
    raw = b""
    for number, line in enumerate(lines, start=1):
        event = _renumbered(line.event, seqs)
        if isinstance(event, RunCreated):
            event = event.model_copy(update={"spec": sha256_hex(changed.to_json())})
        written = dump(replace(line, seq=number, event=event, after=head))
        head = hash_line(written)
        raw += written
    run.journal_path.write_bytes(raw)
    run.state_path.unlink(missing_ok=True)
    found = Run(run.folder, parse_spec(run_json.read_bytes(), path=run_json), run.clock)
    found.read()
    return found


def _renumbered(event: Event, seqs: dict[int, int]) -> Event:
    match event:
        case CallCompleted() | CallFailed() | CallUnknown() | CallDropped():
            return event.model_copy(update={"of": seqs[event.of]})
        case Decision() if event.of:
            return event.model_copy(update={"of": seqs[event.of]})
        case RunFinished():
            cause, also = seqs.get(event.cause, 0), [seqs[seq] for seq in event.also if seq in seqs]
            return event.model_copy(update={"cause": cause, "also": also} if event.cause else {})
    return event


def of_call(line: Line, seq: int) -> bool:
    """True for the lines about the call `seq`."""
    return line.seq == seq if isinstance(line.event, CallStarted) else getattr(line.event, "of", None) == seq


def without(seq: int) -> Edit:
    """Nothing was ever recorded of this call."""
    return lambda lines: [line for line in lines if not of_call(line, seq)]


def swapped(first: int, second: int) -> Edit:
    """The records of two calls change places."""

    def edit(lines: list[Line]) -> list[Line]:
        one = [line for line in lines if of_call(line, first)]
        other = [line for line in lines if of_call(line, second)]
        at = lines.index(one[0])
        rest = [line for line in lines if line not in one and line not in other]
        return [*rest[:at], *other, *one, *rest[at:]]

    return edit


def changed(seq: int, **fields: Any) -> Edit:
    """The event in this line has other fields."""

    def edit(lines: list[Line]) -> list[Line]:
        # built anew and not copied, so that what was not given before counts as given
        return [
            replace(line, event=type(line.event)(**{**line.event.body(), **fields})) if line.seq == seq else line
            for line in lines
        ]

    return edit


def repeated(seq: int, **fields: Any) -> Edit:
    """The record of this call once more, behind the call, with other fields at its start."""

    def edit(lines: list[Line]) -> list[Line]:
        found = [line for line in lines if of_call(line, seq)]
        at = lines.index(found[-1]) + 1
        start = found[0]
        again = replace(start, seq=-1, event=type(start.event)(**{**start.event.body(), **fields}))
        ends = [replace(line, seq=-2, event=line.event.model_copy(update={"of": -1})) for line in found[1:]]
        return [*lines[:at], again, *ends, *lines[at:]]

    return edit
