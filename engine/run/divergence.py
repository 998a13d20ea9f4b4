"""Why pinned code asked something else this time: the first place where the arguments differ, and what usually causes that.

A guess is made from the difference alone: what is the same in both arguments says nothing. Long arguments are shown around the
place where they differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cloche_guest import codec

from engine.run.calls import CallKey
from engine.run.history import History, Record
from engine.run.wording import clean

ARGUMENT_CHARACTERS = 600

LOOKED_AT = 1024 * 1024
"""Characters of a difference that a cause is guessed from."""

_AROUND = 40
"""Characters before and behind a difference that may belong to the same word."""

_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,16}")
_NUMBER = re.compile(r"(?<![\w.])-?\d{12,16}(?!\w|\.\d)")
_WORD = re.compile(r"\w+")
_WORLD = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?|\b\d{2}:\d{2}:\d{2}(\.\d+)?\b|/(tmp|proc|sys|dev|run)/[\w./-]*|"
    r"\bpid\W{0,3}\d+|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b\d+\.\d+\b"
)

# Where a process on Linux has its memory; what object.__hash__ makes of that is a sixteenth of it.
_MEMORY = range(0x5500_0000_0000, 0x8000_0000_0000)

SET_ORDER = "the order of a set; sort what comes out of one"
ADDRESS = "the repr of an object, which holds its address; record a field of it instead"
NUMBER = "id() or hash() of an object, which come from its address; record a field of it instead"
OBJECTS = (
    "the order of a set of objects and their repr, which both hang on addresses; sort by a field, and record fields"
)
KIND = 'a value of another type: 1, True, 1.0 and "1" are different arguments'
WORLD = (
    "the environment (a time, a measurement, a process id, a temporary name); take it from now(), random() or new_id(), "
    "or from a recorded call"
)
UNKNOWN = "not known; the code decided by something that no record holds"


@dataclass(frozen=True)
class Divergence:
    """A call that asks something else than the record at its place. Arguments are JSON text, clipped to the difference."""

    key: CallKey
    recorded: str
    asked: str
    recorded_site: str
    site: str
    where: str
    cause: str

    def __str__(self) -> str:
        return (
            f"{self.key.fn}() number {self.key.n} in {self.key.scope} at {self.site or 'an unknown place'} asked something "
            f"else than before, at {self.where}.\n  recorded: {self.recorded}\n  now:      {self.asked}\n"
            f"  likely cause: {self.cause}"
        )


def compare(
    key: CallKey, *, recorded: Any, asked: Any, recorded_site: str, site: str, moved: Record | None = None
) -> Divergence:
    """The report on two encoded argument dicts of the same call.

    `moved`: the record of another call, which asked what this one asks now (see `asked_elsewhere`).
    """
    where, before, after = next(_differences("$", recorded, asked), ("$", recorded, asked))
    return Divergence(
        key,
        *_shown(recorded, asked, before, after),
        recorded_site,
        site,
        where,
        _cause(before, after) if moved is None else _order_of_calls(key, moved),
    )


def asked_elsewhere(history: History, key: CallKey) -> Record | None:
    """The record of another call of this function with these arguments: one in the same scope, else the first one anywhere."""
    found = [
        record
        for record in history.records.values()
        if (record.key.fn, record.key.digest) == (key.fn, key.digest) and record.key != key
    ]
    return next((record for record in found if record.key.scope == key.scope), found[0] if found else None)


# what differs


def _differences(path: str, before: Any, after: Any) -> Iterator[tuple[str, Any, Any]]:
    """Places that differ, in the recorded order. The order of entries of a dict is no difference."""
    if isinstance(before, dict) and isinstance(after, dict) and set(before) == set(after):
        for name in before:
            inner = _pairs if name == "$dict" else _differences
            yield from inner(path if name.startswith("$") else path + _step(name), before[name], after[name])
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        if not _same(before, after) and _same_members(before, after):
            yield path, before, after
            return
        for i, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _differences(f"{path}[{i}]", one, other)
    elif not _same(before, after):
        yield path, before, after


def _pairs(path: str, before: Any, after: Any) -> Iterator[tuple[str, Any, Any]]:
    """As `_differences`, for the entries of a dict with keys of any kind."""
    ones, others = ({codec.canonical(key): item for key, item in pairs} for pairs in (before, after))
    if set(ones) != set(others):
        yield path, [pair[0] for pair in before], [pair[0] for pair in after]
        return
    for key, item in ones.items():
        yield from _differences(f"{path}[{clean(key.decode(), _AROUND)}]", item, others[key])


def _step(name: str) -> str:
    return f".{name}" if name.isidentifier() else f"[{name[:_AROUND]!r}]"


def _same(before: Any, after: Any) -> bool:
    return codec.canonical(before) == codec.canonical(after)


def _same_members(before: list[Any], after: list[Any]) -> bool:
    return sorted(codec.canonical(item) for item in before) == sorted(codec.canonical(item) for item in after)


# how it is shown


def _shown(recorded: Any, asked: Any, before: Any, after: Any) -> tuple[str, str]:
    one, other = codec.text(recorded), codec.text(asked)
    if max(len(one), len(other)) > ARGUMENT_CHARACTERS:
        one, other = codec.text(before), codec.text(after)
        start = max(0, _common(one, other) - ARGUMENT_CHARACTERS // 4)
        if start:
            one, other = f"… {one[start:]}", f"… {other[start:]}"
    return clean(one, ARGUMENT_CHARACTERS), clean(other, ARGUMENT_CHARACTERS)


def _common(one: str, other: str) -> int:
    """Length of what both begin with."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


# why


def _order_of_calls(key: CallKey, moved: Record) -> str:
    where = "" if moved.key.scope == key.scope else f" in {moved.key.scope}"
    return (
        f"calls made in another order, as from a set: number {moved.key.n}{where} asked for this before; "
        "sort what the calls are made from"
    )


def _cause(before: Any, after: Any) -> str:
    if isinstance(before, list) and isinstance(after, list) and _same_members(before, after):
        return SET_ORDER
    if _is_scalar(before) and _is_scalar(after) and type(before) is not type(after):
        return KIND if before == after or str(before) == str(after) else UNKNOWN
    one, other = _apart(codec.text(before), codec.text(after))
    for blank, cause in ((_no_addresses, ADDRESS), (_no_numbers, NUMBER)):
        if (blanked := blank(one.text)) != one.text and blanked == blank(other.text):
            return cause
    if _words(one.text) == _words(other.text):
        return SET_ORDER
    if _words(_no_addresses(one.text)) == _words(_no_addresses(other.text)):
        return OBJECTS
    if one.holds(_WORLD) or other.holds(_WORLD) or isinstance(before, float):
        return WORLD
    return UNKNOWN


@dataclass(frozen=True)
class _Part:
    """A part of a text that differs from another one between `start` and `end`; the rest is the same in both."""

    text: str
    start: int
    end: int

    def holds(self, pattern: re.Pattern[str]) -> bool:
        """True when a match reaches into what differs."""
        return any(found.start() < self.end and self.start < found.end() for found in pattern.finditer(self.text))


def _apart(one: str, other: str) -> tuple[_Part, _Part]:
    """What differs of two texts, with the words that it stands in."""
    start = _common(one, other)
    most = min(len(one), len(other)) - start
    behind = _common(one[len(one) - most :][::-1], other[len(other) - most :][::-1])
    first = max(0, start - _AROUND)
    if inside := re.match(r"\w*", one[first:start]):
        first += inside.end() if first else 0  # no half word at the edge
    return tuple(  # type: ignore[return-value]
        _Part(
            text[first : min(len(text) - behind + _AROUND, first + LOOKED_AT)],
            start - first,
            max(len(text) - behind, start + 1) - first,
        )
        for text in (one, other)
    )


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def _no_addresses(text: str) -> str:
    return _ADDRESS.sub("0x", text)


def _no_numbers(text: str) -> str:
    """Without numbers that are addresses, or hashes made of them."""

    def blank(found: re.Match[str]) -> str:
        number = abs(int(found[0]))
        return "id" if number in _MEMORY or number * 16 in _MEMORY else found[0]

    return _NUMBER.sub(blank, text)


def _words(text: str) -> list[str]:
    return sorted(_WORD.findall(text))
