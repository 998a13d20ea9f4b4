"""The example packages satisfy the contract, pass their own tests, and those tests notice when the entry does nothing.

The refused ones are wrong in the one way they are there to show.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.package.freeze import freeze
from engine.package.validate import validate
from tests.helpers.package_tests import EXAMPLES, PACKAGES, copy_packages, replace_entry, run_tests


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return copy_packages([EXAMPLES / name for name in PACKAGES], tmp_path / "root")


@pytest.mark.parametrize("name", PACKAGES)
def test_an_example_satisfies_the_contract_as_a_planner_must(name: str) -> None:
    assert validate(freeze(EXAMPLES / name), authored=True).diagnostics == ()


def test_the_examples_pass_their_own_tests(root: Path) -> None:
    ran = run_tests(root, *PACKAGES)
    assert ran.returncode == 0, ran.stdout
    assert "skipped" not in ran.stdout


def test_the_examples_fail_their_tests_when_the_entry_raises(root: Path) -> None:
    for name in PACKAGES:
        replace_entry(root, name)
    ran = run_tests(root, *PACKAGES)
    failed = set(re.findall(r"^FAILED workflows/(\w+)/", ran.stdout, re.MULTILINE))
    assert failed == set(PACKAGES), ran.stdout


@pytest.mark.parametrize("name", ["failing_test", "reaches_out"])
def test_a_refused_example_satisfies_the_contract_so_that_the_gate_is_what_stops_it(name: str) -> None:
    assert validate(freeze(EXAMPLES / "refused" / name), authored=True).diagnostics == ()


def test_the_failing_test_fails_and_the_other_one_passes(tmp_path: Path) -> None:
    ran = run_tests(copy_packages([EXAMPLES / "refused" / "failing_test"], tmp_path / "root"), "failing_test")
    assert ran.returncode == 1
    assert "1 failed, 1 passed" in ran.stdout


def test_the_invalid_package_breaks_rules_of_every_subject() -> None:
    judged = validate(freeze(EXAMPLES / "refused" / "invalid_package"))
    assert not judged.ok
    subjects = {diagnostic.rule.partition(".")[0] for diagnostic in judged.diagnostics}
    assert subjects >= {"tree", "identity", "metadata", "module", "import", "name", "entry", "tests", "readme"}
