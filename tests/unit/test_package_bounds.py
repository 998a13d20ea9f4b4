"""Bounds of what judging a package costs, whatever stands in it, and that they are said with what to do."""

from __future__ import annotations

from time import process_time

import pytest

from engine.errors import InvalidPackage
from engine.package import bounds
from engine.package.contract import Diagnostic
from engine.package.freeze import freeze_files
from engine.package.pins import pins_of, with_pins_in
from engine.package.validate import validate
from tests.helpers.package_cases import BASE, files_of

PYPROJECT = files_of(BASE)["pyproject.toml"]
TOOL = b"\n[tool.cloche]\n"
SECONDS = 15
"""Far above what each takes (below 4 s of an otherwise busy core), far below what it took without its bound."""


def judged(files: dict[str, bytes]) -> tuple[tuple[Diagnostic, ...], float]:
    """The diagnostics, and the seconds of processor time that they took."""
    candidate = freeze_files("word_count", {**files_of(BASE), **files})
    before = process_time()
    found = validate(candidate).diagnostics
    return found, process_time() - before


def in_function(text: bytes, size: int) -> bytes:
    return b"import cloche\n\ndef f(x):\n    " + text * (size // len(text)) + b"x\n"


def test_a_mebibyte_of_short_statements_is_refused_before_it_is_parsed() -> None:
    found, seconds = judged({"steps/many.py": in_function(b"x;", bounds.FILE_BYTES - 100)})
    assert [(one.rule, one.file) for one in found] == [("text.tokens", "steps/many.py")]
    assert "200,000" in found[0].message
    assert "resource()" in found[0].fix
    assert seconds < 3


def test_the_bound_of_code_is_one_for_all_files_and_is_said_once() -> None:
    files = {f"steps/many_{i}.py": in_function(b"x;", 80_000) for i in range(60)}
    found, seconds = judged(files)
    assert [(one.rule, one.file) for one in found] == [("text.tokens", "steps/many_10.py")]
    assert seconds < SECONDS


def test_as_much_code_as_there_may_be_is_judged_in_seconds() -> None:
    found, seconds = judged({"steps/much.py": in_function(b"cloche" + b".a" * 95 + b";", 190_000)})
    assert {one.rule for one in found} == {"import.primitive"}
    assert seconds < SECONDS


def test_a_test_whose_cases_have_thousands_of_digits_is_refused() -> None:
    source = (
        b"import pytest\n\n"
        + b'@pytest.mark.parametrize("a", [1, 2, 3, 4])\n' * 7_200
        + b"def test_more(a):\n    assert a\n"
    )
    found, _ = judged({"tests/test_more.py": source})
    assert "tests.parametrize" in {one.rule for one in found}


def test_thousands_of_tests_that_share_a_list_of_thousands_are_refused_at_once() -> None:
    """Sixteen million cases, each a value, filled the memory of the host."""
    test = b'@pytest.mark.parametrize("a", N)\ndef test_%d(a):\n    assert a\n\n'
    source = b"import pytest\n\nN = [" + b"0," * 2000 + b"]\n" + b"".join(test % i for i in range(8000))
    found, seconds = judged({"tests/test_more.py": source})
    assert [(one.rule, one.line) for one in found] == [("tests.count", 9)]
    assert seconds < SECONDS


def test_marks_in_a_long_list_are_read_once_for_all_tests() -> None:
    test = b'@pytest.mark.parametrize("a", N)\n@pytest.mark.parametrize("b", N)\ndef test_%d(a, b):\n    assert a\n\n'
    values = b"pytest.param(1, marks=pytest.mark.skip(reason='x'))," * 2000
    source = b"import pytest\n\nN = [" + values + b"]\n" + b"".join(test % i for i in range(2000))
    found, seconds = judged({"tests/test_more.py": source})
    assert {one.rule for one in found} >= {"tests.parametrize"}
    assert seconds < SECONDS


def test_thousands_of_unknown_keys_are_told_by_the_first_ones() -> None:
    keys = b"".join(b"k%d=1\n" % i for i in range(7000))
    found, seconds = judged({"pyproject.toml": (PYPROJECT + TOOL + keys)[: bounds.PYPROJECT_BYTES].rsplit(b"\n", 1)[0]})
    assert {one.rule for one in found} == {"metadata.unknown_key"}
    assert len(found) == bounds.UNKNOWN_KEYS
    assert all(one.line for one in found)
    assert seconds < 3


def test_thousands_of_permissions_are_judged_at_once() -> None:
    permissions = b"permissions = [" + b",".join(b"'p%d'" % i for i in range(4000)) + b"]\n"
    found, seconds = judged({"pyproject.toml": PYPROJECT + TOOL + b"#\n" * 12_000 + permissions})
    assert len(found) == 4000
    assert {one.rule for one in found} == {"metadata.permissions"}
    assert seconds < 3


def test_pins_that_make_a_pyproject_too_large_are_refused_in_words() -> None:
    filled = PYPROJECT + b"#" * (bounds.PYPROJECT_BYTES - len(PYPROJECT) - 10) + b"\n"
    with pytest.raises(InvalidPackage, match="larger than 64 KiB"):
        with_pins_in(filled, {"other": "a" * 40})


def test_pins_are_rewritten_beside_a_nan() -> None:
    assert pins_of(with_pins_in(PYPROJECT + b"\n[tool.x]\ny = nan\n", {"other": "a" * 40})) == {"other": "a" * 40}


def test_pins_that_are_written_in_several_places_are_refused_in_words() -> None:
    twice = b"\n[tool.cloche.workflow-dependencies.a]\n[tool.cloche.workflow-dependencies]\nb = 'c'\n"
    with pytest.raises(InvalidPackage, match="several places"):
        with_pins_in(PYPROJECT + twice, {"other": "a" * 40})
