"""docs/reference/promises.md names tests that exist, for every promise, and every rule of the contract."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from engine.package.rules import RULES

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "promises.md"
SUBJECTS = [
    *("Contract", "Publication", "Gate", "Cell boundaries", "Cell lifecycle", "Image", "Supervisor", "Exchange"),
    *("Failures", "Keys", "Journal", "Replay", "Endings", "Payload"),
]


def rows(text: str) -> list[tuple[str, list[str]]]:
    """Promise and what holds it, of every row of a table."""
    cells = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| ")]
    assert all(len(row) == 2 for row in cells)
    return [(row[0].strip(), re.findall(r"`([^`]+)`", row[1])) for row in cells if row[0].strip() != "promise"]


@cache
def names_in(file: str) -> frozenset[str]:
    """Names of the test functions of a file, those in classes too; parametrised ones once."""
    path = ROOT / file
    if not path.is_file():
        return frozenset()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = (node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(name for name in found if name.startswith("test_"))


def is_there(named: str) -> bool:
    """True for a rule, or a test by its file and name."""
    file, _, function = named.partition("::")
    return named in RULES or function in names_in(file)


ROWS = rows(PAGE.read_text(encoding="utf-8"))


@pytest.mark.parametrize(("promise", "held_by"), ROWS, ids=range(len(ROWS)))
def test_every_promise_is_held_by_tests_that_exist(promise: str, held_by: list[str]) -> None:
    assert held_by, promise
    assert [named for named in held_by if not is_there(named)] == []
    assert len(set(held_by)) == len(held_by)


def test_every_other_test_that_the_page_names_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py::\w+)`", PAGE.read_text(encoding="utf-8"))
    assert len(named) > 150
    assert [one for one in named if not is_there(one)] == []


def test_every_rule_of_the_contract_is_promised() -> None:
    assert set(RULES) - {named for _, held_by in ROWS for named in held_by} == set()


def test_every_subject_has_a_table_and_no_promise_stands_twice() -> None:
    assert re.findall(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE) == SUBJECTS
    promises = [promise for promise, _ in ROWS]
    assert len(set(promises)) == len(promises)


def test_a_promise_without_a_test_is_found() -> None:
    ((_, none), (_, held_by)) = rows("| promise | held by |\n| a | – |\n| b | `tests/unit/test_x.py::test_y` |\n")
    assert none == []
    assert [is_there(named) for named in [*held_by, f"{Path(__file__).relative_to(ROOT)}::test_nothing"]] == [False] * 2
