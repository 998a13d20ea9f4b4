"""Which tests of cells run under runc alone, and why: read from their marks, for the reference page of runtimes."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

_Test = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Marks:
    """What one test file says: `alone` of the whole file, `""` when it runs under both, None when it says nothing.

    `tests` are those that say something else, by name; the same values.
    """

    alone: str | None
    tests: dict[str, str] = field(default_factory=dict)


def marks_of(text: str) -> Marks:
    """The marks of a file's text."""
    tree = ast.parse(text)
    whole = [one.value for one in tree.body if isinstance(one, ast.Assign) and _is_pytestmark(one)]
    listed = whole[0].elts if whole and isinstance(whole[0], ast.List) else whole
    tests = {one.name: _alone(one.decorator_list) for one in tree.body if isinstance(one, _Test)}
    return Marks(_alone(listed), {name: why for name, why in tests.items() if why is not None})


def alone(tests: Path) -> Iterator[tuple[str, str]]:
    """Rows of `what` and `why`: whole files, but for the tests that they name, and single tests."""
    for path in sorted(tests.glob("test_*.py")):
        marks = marks_of(path.read_text(encoding="utf-8"))
        if marks.alone:
            but = [f"`{name}`" for name, why in marks.tests.items() if not why]
            yield f"`{path.name}`" + (f" but for {_listed(but)}" if but else ""), marks.alone
        yield from ((f"`{path.name}::{name}`", why) for name, why in marks.tests.items() if why)


def _is_pytestmark(assignment: ast.Assign) -> bool:
    return any(isinstance(target, ast.Name) and target.id == "pytestmark" for target in assignment.targets)


def _alone(marks: Iterable[ast.expr]) -> str | None:
    for mark in marks:
        match mark:
            case ast.Call(func=ast.Attribute(attr="runc_only"), args=[ast.Constant(value=str(why))]):
                return why
            case ast.Attribute(attr="both_runtimes"):
                return ""
    return None


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
