"""A new run that begins with the records of another one: those of the calls that were first made before a call of it.

The copied events stand in generation 0 of the new journal, in their order and at their times, renumbered and chained anew
(docs/reference/journal.md). Of each call all attempts are taken, or none when a resume of the source would execute it again.
The source is only read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.ids import new_run_id
from engine.run.claim import RunOwned, read_owner
from engine.run.events import (
    CallCompleted,
    CallDropped,
    CallFailed,
    CallStarted,
    CallUnknown,
    Decision,
    Event,
    Line,
)
from engine.run.folder import Run
from engine.run.history import History, Record
from engine.run.journal import Journal
from engine.run.named import named_call
from engine.run.permissions import granted
from engine.run.replay import executes_again
from engine.run.spec import ForkedFrom, RunSpec

if TYPE_CHECKING:
    from engine.catalog.snapshots import PinnedSnapshot


@dataclass(frozen=True)
class Inheritance:
    """What a fork takes over: its spec's origin, events with their times (seconds since 1970), and the files of large values."""

    origin: ForkedFrom
    cap: int
    events: tuple[tuple[float, Event], ...]
    blobs: tuple[Path, ...]


def inherit(source: Run, seq: int, *, refused: frozenset[str] = frozenset()) -> Inheritance:
    """What a fork of `source` before its call `seq` begins with.

    Records of the functions `refused` are not taken: what another revision may not ask for it is not told from the record either.

    Raises:
        RunOwned: the source is being executed.
        CallNotFound: it has no such call.
        JournalDamaged: it cannot be read, also when the damage is behind the call; or a value is missing or changed.
    """
    if source.is_owned():
        raise RunOwned(
            f"run {source.run_id} is being executed by {read_owner(source) or 'another process'}.",
            fix="Fork it when it has ended; Ctrl-C of its owner interrupts it, and it stays as it is.",
        )
    journal, history = source.read()
    named = named_call(source, history, seq)
    kept = _kept(history, named, refused)
    events = tuple(_copied(journal, history, kept))
    names = sorted({name for _, event in events if (name := _blob_of(event))})
    for name in names:
        source.blobs.get(name)
    origin = ForkedFrom(run=source.run_id, seq=seq, at=source.spec.began_at)
    return Inheritance(origin, history.cap(source.spec.cap), events, tuple(source.folder / "blobs" / n for n in names))


def permissions_of(source: RunSpec, snapshot: PinnedSnapshot) -> tuple[str, ...]:
    """What a fork on this snapshot may do: what the source may, and for another revision what is granted anew.

    Raises:
        CorruptEntry: the metadata of another revision cannot be read.
    """
    same = snapshot.revision == source.revision
    return source.permissions if same else granted(snapshot.summary().permissions)


def forked_spec(source: RunSpec, inherited: Inheritance, *, snapshot: PinnedSnapshot, now: datetime) -> RunSpec:
    """The fixed part of the fork: the source's, on this snapshot, with `permissions_of` both.

    Raises:
        CorruptEntry: as `permissions_of`.
    """
    assert snapshot.revision is not None, "a candidate is tested, never run"
    return source.model_copy(
        update={
            "run_id": new_run_id(now),
            "revision": snapshot.revision,
            "tree_id": snapshot.tree_id,
            "pins": dict(snapshot.pins),
            "snapshot_digest": snapshot.digest,
            "permissions": permissions_of(source, snapshot),
            "cap": inherited.cap,
            "created_at": now.timestamp(),
            "forked_from": inherited.origin,
        }
    )


# what is taken


def _kept(history: History, named: Record, refused: frozenset[str]) -> frozenset[int]:
    """The `s` of the records that stand before the call, without those that a resume would execute again or that are `refused`."""
    places = takewhile(lambda records: named not in records, history.places.values())
    taken = (records for records in places if _is_taken(history, records[-1]) and records[-1].key.fn not in refused)
    return frozenset(record.seq for records in taken for record in records)


def _is_taken(history: History, newest: Record) -> bool:
    if newest.outcome is None:
        return not (newest.rerun or newest.is_question)
    return not (isinstance(newest.outcome, CallFailed) and executes_again(history, newest))


def _copied(journal: Journal, history: History, kept: frozenset[int]) -> Iterable[tuple[float, Event]]:
    """The events about these records, in order. The first line of the new journal is its own."""
    seqs: dict[int, int] = {}
    number = 1
    for line in journal.lines:
        if _about(line) in kept:
            number += 1
            if isinstance(line.event, CallStarted):
                seqs[line.seq] = number
            yield line.at, _renumbered(line.event, seqs)
    for seq in sorted(kept):
        record = history.records[seq]
        if record.outcome is None and not (record.lost or record.dropped):
            yield journal.lines[-1].at, CallUnknown(of=seqs[seq])


def _about(line: Line) -> int:
    match line.event:
        case CallStarted():
            return line.seq
        case CallCompleted(of=of) | CallFailed(of=of) | CallUnknown(of=of) | CallDropped(of=of) | Decision(of=of):
            return of
    return 0


def _renumbered(event: Event, seqs: Mapping[int, int]) -> Event:
    changes: dict[str, Any] = {}
    if isinstance(event, CallStarted):
        changes = {"caller": seqs.get(event.caller, 0)} if event.caller else {}
    elif isinstance(event, CallCompleted | CallFailed | CallUnknown | CallDropped | Decision):
        changes = {"of": seqs[event.of]}
    return event.model_copy(update=changes)


def _blob_of(event: Event) -> str:
    match event:
        case CallStarted(args_blob=name) | CallCompleted(blob=name):
            return name
    return ""
