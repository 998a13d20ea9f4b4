"""The calls of a run as text: one line each, grouped, numbered, and folded where they say nothing new. Pure."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from engine.run.view import CallView, DecisionView, GroupView, Node, calls_of

COLUMNS = 100
"""Width that a line keeps to, as far as names and places let it."""

LEAST_CHARACTERS = 20
"""Characters of a call's arguments that are always shown."""

REPLAYED_SHOWN = 3
"""Replayed calls in a row that are still shown one by one."""

COMPLETED_SHOWN = 8
"""Executed calls in a row that are still shown one by one; of more, the first and the last `ENDS_SHOWN`."""

ENDS_SHOWN = 2

REPLAYED = "↺"
MARKS = {"completed": "✓", "failed": "✗", "unknown": "?", "running": "…", "waiting": "◌", "dropped": "⊘"}

_PEOPLE = {
    "rerun": "decided that it is made again",
    "treat-as-failed": "decided that it counts as failed",
    "value": "gave its value",
    "answer": "answered",
}
_JSON = json.JSONDecoder()
_NAME = re.compile(r',?"(\w+)":')
_BRANCH = re.compile(r" (branch|item) \d+$")


@dataclass(frozen=True)
class CallText:
    """How calls are told. `settled`: the newest generation told how its program ended, so that other failures were handled.

    `width` is that of the column of numbers.
    """

    settled: bool
    everything: bool
    width: int

    def lines(self, nodes: list[Node], depth: int = 0) -> Iterator[str]:
        """The nodes in order, each below its groups."""
        for alike, found in groupby(nodes, key=_folds_as):
            run = list(found)
            if alike is None or self.everything or len(run) <= _shown(alike[0]):
                for node in run:
                    yield from self._node(node, depth)
            elif alike[0] == REPLAYED:
                yield self._folded(run, depth, alike)
            else:
                for node in run[:ENDS_SHOWN]:
                    yield from self._node(node, depth)
                yield self._folded(run[ENDS_SHOWN:-ENDS_SHOWN], depth, alike)
                for node in run[-ENDS_SHOWN:]:
                    yield from self._node(node, depth)

    def _node(self, node: Node, depth: int) -> Iterator[str]:
        if isinstance(node, GroupView):
            yield f"{self._margin('', depth)}▸ {node.kind} {node.name}"
            yield from self.lines(node.items, depth + 1)
        else:
            yield from self._call(node, depth)

    def _margin(self, number: str, depth: int) -> str:
        return f"{number:>{self.width}}  {'  ' * depth}"

    def _folded(self, run: list[Node], depth: int, alike: tuple[str, str]) -> str:
        calls = calls_of(run)
        mark, group = alike
        told = (
            f"{mark} {_many(len(calls), 'call')} {'replayed' if mark == REPLAYED else 'completed'}: {_by_name(calls)}"
        )
        what = f"▸ {group}, {len(run)} alike: " if group else ""
        numbers = f"  #{min(c.seq for c in calls)}–#{max(c.seq for c in calls)}"
        return f"{self._margin('', depth)}{what}{told}{numbers}"

    def _call(self, call: CallView, depth: int) -> Iterator[str]:
        margin = self._margin(f"#{call.seq}", depth)
        head = f"{margin}{mark_of(call)} {call.fn}("
        rest = "  ".join([")", *self._remarks(call)])
        room = max(LEAST_CHARACTERS, COLUMNS - len(head) - len(rest))
        yield f"{head}{clip(as_code(call.arguments), room)}{rest}"
        below = " " * len(self._margin("", depth)) + "    "
        if call.error is not None:
            yield f"{below}{clip(f'{call.error.type}: {call.error.message}', 300)}{self._fate(call)}"
        for decision in call.decisions:
            yield f"{below}{decided(decision)}"

    def _remarks(self, call: CallView) -> Iterator[str]:
        if call.label:
            yield f"“{clip(call.label, 60)}”"
        if call.duration_s is not None:
            yield seconds(call.duration_s)
        match call.status:
            case "unknown" if call.waits_for == "timer":
                yield "cut off"
            case "unknown":
                yield f"unknown since generation {call.generation}"
            case "dropped":
                yield "given up by the program"
            case "waiting":
                yield "waits for an answer"
        if call.attempts > 1:
            last = f", last by generation {call.generation}" if call.duration_s is not None else ""
            yield f"executed {call.attempts} times{last}"
        yield call.site.removeprefix("workflows/")

    def _fate(self, call: CallView) -> str:
        if call.status != "failed":
            return ""
        if call.ended_generation:
            return f"  — not handled, ended generation {call.ended_generation}"
        return "  — handled" if self.settled else ""


def mark_of(call: CallView) -> str:
    """One character for how a call stands."""
    return REPLAYED if call.replayed and call.status == "completed" else MARKS[call.status]


def decided(decision: DecisionView) -> str:
    """What a person decided about a call, in words."""
    return f"{decision.by or 'a person'} {_PEOPLE.get(decision.what, decision.what)}"


def _folds_as(node: Node) -> tuple[str, str] | None:
    """What a node is alike with others in: mark and kind of group; None for one that has something of its own to tell."""
    if isinstance(node, CallView):
        plain = node.status == "completed" and node.attempts == 1 and not (node.error or node.decisions)
        return (mark_of(node), "") if plain else None
    marks = {_folds_as(call) for call in calls_of(node.items)}
    found = marks.pop() if len(marks) == 1 else None
    return None if found is None else (found[0], _BRANCH.sub("", f"{node.kind} {node.name}"))


def _shown(mark: str) -> int:
    return REPLAYED_SHOWN if mark == REPLAYED else COMPLETED_SHOWN


def _by_name(calls: Iterable[CallView]) -> str:
    return ", ".join(f"{fn} ×{number}" for fn, number in Counter(call.fn for call in calls).most_common(4))


def as_code(arguments: str) -> str:
    """Arguments as code writes them, `path="a.txt", offset=0`; from where the text was clipped, as it is."""
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


def seconds(value: float) -> str:
    """A duration with its unit."""
    return f"{value * 1000:.1f} ms" if value < 1 else f"{value:.2f} s"


def clip(text: str, most: int) -> str:
    """The text on one line, at most this many characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"


def _many(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
