"""The record of the last measurement, and docs/reference/probe-matrix.md, which is rendered from it and from the tests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from engine.sandbox.attempts import attempts
from tests.matrix.measure import Measured
from tests.matrix.weaker import FIELDS, NO_PROTECTION, PROTECTIONS
from tests.sandbox import test_probe_packages, test_probe_programs

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "tests" / "fixtures" / "probe" / "matrix.json"
PAGE = ROOT / "docs" / "reference" / "probe-matrix.md"

INTRO = """<!-- Measured and rendered by `make matrix`; change it there. -->

# Probe matrix

Which attempt of `cloche sandbox probe` finds which missing protection, measured under runc. Each protection was taken away in a
cell of its own and the weaker policy was claimed, so that the readback (which compares the engine's whole configuration with the
policy, and finds every line of the first two tables) had nothing to say. The second wall is what the supervisor attests from inside
and the host reads in cgroup files; the attempts are the third. The suite takes every protection away again and makes the attempts
that are named here.
"""
CALLS = """One more call let through, whatever its arguments. Where no attempt gets through, the worker's missing rights or the
kernel's own rules stop it too.
"""
ELSEWHERE = """Protections that are no part of the policy, and bounds that need a whole cell: taken away in tests, found by programs
and packages.
"""
HELD = "none alone: another wall holds"


def read() -> dict[str, Measured]:
    """What was measured, by protection."""
    kept = json.loads(RECORD.read_text(encoding="utf-8"))
    return {
        name: Measured(
            one["refused"], one["seen"], tuple(one["through"]), tuple((name, cause) for name, cause in one["otherwise"])
        )
        for name, one in kept.items()
    }


def write(found: Mapping[str, Measured]) -> None:
    """Keep a measurement, and render the page."""
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    RECORD.write_text(json.dumps({name: asdict(one) for name, one in found.items()}, indent=1) + "\n")
    render()


def render() -> None:
    """Write the page anew from the record."""
    PAGE.write_text(rendered(read()), encoding="utf-8")


def rendered(found: Mapping[str, Measured]) -> str:
    """The page."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: Mapping[str, Measured]) -> Iterator[str]:
    yield INTRO
    yield "## The policy\n"
    yield "| without | field | seen before any code | attempts that get through |\n|---|---|---|---|"
    for name, (field, _) in FIELDS.items():
        one = found[name]
        seen = f"no cell: {one.refused}" if one.refused else one.seen or "by the readback alone"
        yield f"| {name} | `{field}` | {seen} | {_names(one)} |"
    yield "\nNot protections: " + "; ".join(f"`{field}`, {why}" for field, why in NO_PROTECTION.items()) + ".\n"
    yield "## System calls\n"
    yield CALLS
    yield "| call | seen before any code | attempts that get through |\n|---|---|---|"
    for name in PROTECTIONS:
        if name not in FIELDS:
            one = found[name]
            seen = f"no cell: {one.refused}" if one.refused else one.seen or "by the readback alone"
            yield f"| `{name.removeprefix('call ')}` | {seen} | {_names(one)} |"
    yield "\n## Guest, host and gate\n"
    yield ELSEWHERE
    yield "| without | attempts that get through, or end otherwise than they must |\n|---|---|"
    for name, named in elsewhere().items():
        yield f"| {name} | {_list(named)} |"
    yield "\n## Attempts\n"
    yield "| attempt | group | finds missing | claimed under |\n|---|---|---|---|"
    finds = _finds(found)
    for attempt in attempts():
        yield (
            f"| `{attempt.name}` | {attempt.group} | {'; '.join(finds.get(attempt.name, ())) or 'two walls hold'} "
            f"| {' '.join(sorted(attempt.expects))} |"
        )


def elsewhere() -> dict[str, tuple[str, ...]]:
    """What the tests of programs and packages take away, with the attempts that find it."""
    taken = {
        **test_probe_programs.UNBOUNDED,
        **test_probe_programs.WEAKER,
        **test_probe_packages.WEAKER,
    }
    return {name: tuple(given[0]) for name, given in taken.items()}


def _finds(found: Mapping[str, Measured]) -> dict[str, list[str]]:
    finds: dict[str, list[str]] = {}
    for protection, one in found.items():
        for name in (*one.through, *(name for name, _ in one.otherwise)):
            finds.setdefault(name, []).append(
                protection.replace("call ", "call `") + "`" * protection.startswith("call ")
            )
    for protection, names in elsewhere().items():
        for name in names:
            finds.setdefault(name, []).append(protection)
    return finds


def _names(one: Measured) -> str:
    if one.refused:
        return "no code ran"
    otherwise = [f"`{name}` (stopped by {cause})" for name, cause in one.otherwise]
    return ", ".join([*(f"`{name}`" for name in one.through), *otherwise]) or HELD


def _list(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
