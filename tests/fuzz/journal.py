"""Target: the journal's reader and the fold, on journals that were damaged by accident or forged with care."""

from __future__ import annotations

import zlib
from pathlib import Path
from random import Random
from typing import Any

from engine.run.events import FIRST_HASH, dump, hash_line, parse
from engine.run.history import History, Inconsistent
from engine.run.journal import Journal, JournalDamaged, last_event, read
from tests.fuzz.mutation import dumped, mutated_lines
from tests.fuzz.target import Target, expect, scratch

FIXTURES = Path(__file__).parents[1] / "fixtures" / "journal"


def check(data: bytes) -> None:
    """A journal is refused with the line that is wrong, or is read, written again the same, and shows each flipped bit."""
    with scratch() as directory:
        path = directory / "journal.jsonl"
        path.write_bytes(data)
        last_event(path)
        journal = _read(path)
        if journal is None:
            return
        expect(journal.size + journal.torn == len(data), "bytes that are neither lines nor torn")
        _fold(journal)
        for line in journal.lines:
            again = dump(line)
            expect(parse(again[:-1]) == line, f"line {line.seq} is another one when written again")
        _flip(path, data, journal)


def _read(path: Path) -> Journal | None:
    try:
        return read(path)
    except JournalDamaged as error:
        expect(error.line >= 1 and len(str(error)) < 2000, "damage without a line")
        return None


def _fold(journal: Journal) -> None:
    history = History()
    try:
        for line in journal.lines:
            history.apply(line)
    except Inconsistent:
        return
    history.open_records()
    history.open_questions()
    history.cap(5)
    history.unended_cells()


def _flip(path: Path, data: bytes, journal: Journal) -> None:
    """One bit, anywhere in front of the last line: that one is bound by what is appended next."""
    *_, last = (data[: journal.size - 1]).split(b"\n")
    bound = journal.size - 1 - len(last) - 1
    if bound <= 0:
        return
    at = zlib.crc32(data)
    damaged = bytearray(data)
    damaged[at % bound] ^= 1 << (at >> 20) % 8
    path.write_bytes(bytes(damaged))
    expect(_read(path) is None, f"a bit flipped in byte {at % bound} of {len(data)} is not found")


def seeds() -> list[bytes]:
    """The recorded journals of every format."""
    return [path.read_bytes() for path in sorted(FIXTURES.rglob("journal.jsonl"))]


def chained(events: list[Any]) -> list[Any]:
    """Numbered, and each with the hash of the one before, as their writer would have left them."""
    made: list[Any] = []
    head = FIRST_HASH
    for number, event in enumerate(events, start=1):
        line = event
        if isinstance(event, dict):
            own = {name: value for name, value in event.items() if name not in ("s", "p")}
            line = dumped({"s": number, **own, "p": head})
        elif not isinstance(event, bytes):
            line = dumped(event)
        head = hash_line(line + b"\n")
        made.append(line)
    return made


def mutate(data: bytes, rng: Random) -> bytes:
    """Events changed, dropped, repeated or moved, mostly with hashes that fit."""
    return mutated_lines(data, rng, renumber=chained)


TARGET = Target("journal", seeds, check, mutate)
