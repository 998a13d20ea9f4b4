"""The page of runtimes names what runs under runc alone, and no file of tests of cells is silent about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.reference_alone import Marks, alone, marks_of
from cli.reference_runtimes import TESTS

WHOLE = """
pytestmark = [pytest.mark.sandbox, pytest.mark.runc_only("slow")]


def test_a() -> None: ...


@pytest.mark.both_runtimes
@pytest.mark.parametrize("n", [1])
async def test_b(n: int) -> None: ...
"""
BOTH = """
pytestmark = pytest.mark.both_runtimes


def test_a() -> None: ...


@pytest.mark.parametrize("n", [1])
@pytest.mark.runc_only("the same")
async def test_b(n: int) -> None: ...
"""


def test_every_file_of_tests_of_cells_says_under_which_runtimes_it_runs() -> None:
    paths = [path for path in TESTS.glob("test_*.py") if not path.name.startswith("test_gvisor_")]
    assert len(paths) > 30
    assert [path.name for path in paths if marks_of(path.read_text(encoding="utf-8")).alone is None] == []


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        (WHOLE, Marks("slow", {"test_b": ""})),
        (BOTH, Marks("", {"test_b": "the same"})),
        ("pytestmark = pytest.mark.sandbox\n", Marks(None)),
        ("", Marks(None)),
    ],
)
def test_the_marks_of_a_file_and_of_its_tests_are_read(text: str, marks: Marks) -> None:
    assert marks_of(text) == marks


def test_a_file_is_named_with_what_is_not_meant_and_a_test_by_itself(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text(WHOLE)
    (tmp_path / "test_two.py").write_text(BOTH)
    assert [*alone(tmp_path)] == [
        ("`test_one.py` but for `test_b`", "slow"),
        ("`test_two.py::test_b`", "the same"),
    ]
