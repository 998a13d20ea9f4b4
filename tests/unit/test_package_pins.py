"""Pins are rewritten under the table that is there, and nothing else changes."""

from __future__ import annotations

import tomllib

import pytest

from engine.errors import InvalidPackage
from engine.package.freeze import freeze_files, git_tree_id, with_pins
from engine.package.validate import validate
from tests.helpers.package_cases import BASE, files_of

PINS = {"zeta": "1" * 40, "alpha": "2" * 40}
HEAD = """\
# A comment, and "odd"   spacing.
[project]
name = "word_count"   # trailing
version = '0.1.0'
description = "Counts."
keywords = [ "a",
  "b" ]

[project.entry-points."cloche.workflows"]
word_count = "workflows.word_count:word_count"
"""
TABLES = {
    "none": "",
    "tool": '\n[tool.cloche]\npermissions = ["ask"]  # why\n',
    "other_spelling": '\n[tool.openprogram]\ndisplay-name = "word_count"\n\n[tool.black]\nline-length = 3\n',
    "old_pins": f'\n[tool.cloche.workflow-dependencies]\n# kept\nzeta = "{"1" * 40}"\ngone = "{"3" * 40}"\n\n[tool.x]\n',
    "inline": f'\n[tool.cloche]\nworkflow-dependencies = {{ gone = "{"3" * 40}" }}\n',
    "inline_parent": '\n[tool]\ncloche = { permissions = ["ask"] }\n',
    "dotted": f'\n[tool.cloche]\nworkflow-dependencies.gone = "{"3" * 40}"\n\n[tool.y]\n',
}


def pinned(table: str, pins: dict[str, str], *, newline: str = "\n") -> tuple[bytes, bytes]:
    before = (HEAD + TABLES[table]).replace("\n", newline).encode()
    candidate = freeze_files("word_count", {**files_of(BASE), "pyproject.toml": before})
    after = with_pins(candidate, pins)
    assert dict(after.pins) == pins
    assert after.tree_id == git_tree_id(after.files)
    assert [file for file in after.files if file.path != "pyproject.toml"] == [
        file for file in candidate.files if file.path != "pyproject.toml"
    ]
    assert freeze_files("word_count", {file.path: file.data for file in after.files}) == after
    assert validate(after).ok is validate(candidate).ok is True
    return before, after.file("pyproject.toml") or b""


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_every_line_that_is_no_pin_stays_byte_for_byte(table: str, newline: str) -> None:
    before, after = pinned(table, PINS, newline=newline)
    kept = [line for line in before.splitlines(keepends=True) if b"gone" not in line and b"cloche = {" not in line]
    lines = iter(after.splitlines(keepends=True))
    assert all(line in lines for line in kept), after.decode()


@pytest.mark.parametrize("table", TABLES)
def test_pins_are_written_under_the_table_that_is_there(table: str) -> None:
    _before, after = pinned(table, PINS)
    tools = tomllib.loads(after.decode())["tool"]
    spelling = "openprogram" if table == "other_spelling" else "cloche"
    assert tools[spelling]["workflow-dependencies"] == PINS
    assert ("cloche" in tools) is not ("openprogram" in tools)


@pytest.mark.parametrize("table", TABLES)
def test_equal_pins_change_no_byte(table: str) -> None:
    _before, once = pinned(table, PINS)
    candidate = freeze_files("word_count", {**files_of(BASE), "pyproject.toml": once})
    assert with_pins(candidate, PINS) == candidate


@pytest.mark.parametrize("table", ["old_pins", "inline", "dotted"])
def test_pins_that_are_no_longer_reached_go(table: str) -> None:
    _before, after = pinned(table, {})
    assert b"gone" not in after


def test_no_pins_in_a_package_without_any_change_no_byte() -> None:
    before, after = pinned("tool", {})
    assert after == before


def test_a_group_of_the_other_spelling_decides_when_there_is_no_table() -> None:
    text = HEAD.replace('"cloche.workflows"', '"openprogram.workflows"').encode()
    candidate = freeze_files("word_count", {**files_of(BASE), "pyproject.toml": text})
    assert b"[tool.openprogram.workflow-dependencies]" in (with_pins(candidate, PINS).file("pyproject.toml") or b"")


@pytest.mark.parametrize("text", [b"[project\n", b"tool = 3\n", b"\xff"])
def test_a_damaged_pyproject_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidPackage):
        with_pins(freeze_files("word_count", {"pyproject.toml": text}), PINS)


def test_a_missing_pyproject_is_refused() -> None:
    with pytest.raises(InvalidPackage, match=r"no pyproject\.toml"):
        with_pins(freeze_files("word_count", {}), PINS)
