"""Each rule of the package contract has a package that breaks only it and one at its edge that is fine."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.package.freeze import freeze, freeze_files
from engine.package.rules import RULES
from engine.package.validate import validate
from tests.helpers.package_cases import BASE, PackageCase, files_of, package_cases

CASES = package_cases()
# What only a directory can hold, or where a directory is not what its files are.
DIRECTORY_ONLY = {"tree.symlink", "tree.special"}
DIRECTORY_ONLY_CASES = {"tree.unexpected/bad_empty_folder"}


def test_every_rule_has_a_package_that_breaks_only_it_and_one_that_is_fine() -> None:
    for kind in (True, False):
        assert {case.rule for case in CASES if case.is_bad is kind} == set(RULES)


def test_the_base_package_breaks_no_rule(tmp_path: Path) -> None:
    package = PackageCase("", BASE, {}).build(tmp_path)
    assert validate(freeze(package), authored=True).diagnostics == ()


@pytest.mark.parametrize("case", [case for case in CASES if case.is_bad], ids=lambda case: case.id)
def test_a_package_that_breaks_one_rule_is_told_that_rule_only(case: PackageCase, tmp_path: Path) -> None:
    validation = validate(freeze(case.build(tmp_path)), authored=case.authored)
    assert {found.rule for found in validation.diagnostics} == {case.rule}, validation.diagnostics
    assert validation.ok is case.only_warns
    assert all(found.message and found.fix for found in validation.diagnostics)


@pytest.mark.parametrize("case", [case for case in CASES if not case.is_bad], ids=lambda case: case.id)
def test_a_package_at_the_edge_of_a_rule_is_fine(case: PackageCase, tmp_path: Path) -> None:
    validation = validate(freeze(case.build(tmp_path)), authored=case.authored)
    assert validation.diagnostics == ()
    assert validation.ok


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.rule not in DIRECTORY_ONLY and case.id not in DIRECTORY_ONLY_CASES],
    ids=lambda case: case.id,
)
def test_the_same_bytes_as_a_reply_are_told_the_same(case: PackageCase, tmp_path: Path) -> None:
    package = case.build(tmp_path)
    from_directory = freeze(package)
    from_reply = freeze_files(package.name, files_of(package))
    assert from_reply == from_directory
    assert validate(from_reply, authored=case.authored) == validate(from_directory, authored=case.authored)
