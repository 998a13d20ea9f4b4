"""The call tree: calls in the order in which they were first made, below their phases, dependencies, branches and tasks.

What runs on one line (phases, dependencies) is a group as long as its calls follow one another. Branches, items and tasks run
beside each other, so each is one group however their calls alternate, and the phases around them are held open for them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from engine.run.history import Record
from engine.run.view import CallView, GroupView, Node

_BRANCH = re.compile(r"(parallel|pipeline)@(.+)\[(\d+)\.(\d+)\]")
_TASK = re.compile(r"task@(.+)\[(\d+)\]")


class _Group(NamedTuple):
    """One step on the way to a call. `batch` is what branches of one `parallel` have in common; "" on a line of its own."""

    kind: str
    name: str
    batch: str = ""


class Grouping:
    """Takes calls one by one; `top` is the tree."""

    def __init__(self) -> None:
        self.top: list[Node] = []
        self._open: list[tuple[_Group, GroupView]] = []
        self._beside: dict[tuple[_Group, ...], GroupView] = {}

    def add(self, record: Record, call: CallView) -> None:
        """Put the next call in its place."""
        if record.key.scope == "/" and not record.started.phase:
            self._open = []
            self.top.append(call)
            return
        path = _path(record)
        groups: list[tuple[_Group, GroupView]] = []
        for depth, step in enumerate(path):
            found = self._found(tuple(path[: depth + 1]), depth, step)
            if found is None:
                found = GroupView.model_validate({"kind": step.kind, "name": step.name, "items": []})
                (groups[-1][1].items if groups else self.top).append(found)
            if step.batch:
                self._beside[tuple(path[: depth + 1])] = found
            groups.append((step, found))
        self._open = groups
        (groups[-1][1].items if groups else self.top).append(call)

    def _found(self, way: tuple[_Group, ...], depth: int, step: _Group) -> GroupView | None:
        if step.batch and way in self._beside:
            return self._beside[way]
        if depth >= len(self._open):
            return None
        before = [(one.kind, one.name) for one, _ in self._open[: depth + 1]]
        return self._open[depth][1] if before == [(one.kind, one.name) for one in way] else None


def _path(record: Record) -> list[_Group]:
    parts = [part for part in record.key.scope.split("/") if part]
    batch = next((_batch(part) for part in parts if "@" in part), "")
    phases = [_Group("phase", name, batch) for name in record.started.phase]
    return phases + [_scope(part, batch) for part in parts]


def _batch(part: str) -> str:
    if found := _BRANCH.fullmatch(part):
        return f"{found[1]}@{found[2]}[{found[3]}]"
    return part.partition("[")[0]


def _scope(part: str, batch: str) -> _Group:
    if found := _BRANCH.fullmatch(part):
        kind, place, number, branch = found.groups()
        return _Group(kind, f"{place} #{number} {'branch' if kind == 'parallel' else 'item'} {branch}", batch)
    if found := _TASK.fullmatch(part):
        return _Group("task", f"{found[1]} #{found[2]}", batch)
    return _Group("dependency", part, batch)
