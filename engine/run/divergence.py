"""Why pinned code asked something else this time: the first place where the arguments differ, and what usually causes that."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cloche_guest import codec

from engine.run.calls import CallKey
from engine.run.wording import clean

ARGUMENT_CHARACTERS = 600

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]{6,}|0x[0-9a-fA-F]{8,}")
_WORLD = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\b\d{2}:\d{2}:\d{2}\b|/tmp/|/proc/|\bpid\b|"
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
)


@dataclass(frozen=True)
class Divergence:
    """A call that asks something else than the record at its place. Arguments are JSON text, clipped."""

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


def compare(key: CallKey, *, recorded: Any, asked: Any, recorded_site: str, site: str) -> Divergence:
    """The report on two encoded argument dicts of the same call."""
    where, before, after = next(_differences("$", recorded, asked), ("$", recorded, asked))
    return Divergence(
        key,
        clean(codec.text(recorded), ARGUMENT_CHARACTERS),
        clean(codec.text(asked), ARGUMENT_CHARACTERS),
        recorded_site,
        site,
        where,
        _cause(before, after),
    )


def _differences(path: str, before: Any, after: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(before, dict) and isinstance(after, dict) and set(before) == set(after):
        for name in before:
            yield from _differences(f"{path}.{name}", before[name], after[name])
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        if codec.text(before) != codec.text(after) and _same_members(before, after):
            yield path, before, after
            return
        for i, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _differences(f"{path}[{i}]", one, other)
    elif codec.text(before) != codec.text(after):
        yield path, before, after


def _same_members(before: list[Any], after: list[Any]) -> bool:
    return sorted(codec.canonical(item) for item in before) == sorted(codec.canonical(item) for item in after)


def _cause(before: Any, after: Any) -> str:
    one, other = codec.text(before), codec.text(after)
    if isinstance(before, list) and isinstance(after, list) and _same_members(before, after):
        return "the order of a set; sort what comes out of one"
    if _ADDRESS.search(one) and _ADDRESS.search(other):
        return "the repr of an object, which holds its address; record a field of it instead"
    if sorted(re.findall(r"\w+", one)) == sorted(re.findall(r"\w+", other)):
        return "the order of a set in a text; sort what comes out of one"
    if _WORLD.search(one) or _WORLD.search(other) or isinstance(before, float):
        return "the environment (time, a process id, a temporary name); take it from now(), random() or new_id()"
    return "not known; the code decided by something that no record holds"
