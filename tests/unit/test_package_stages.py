"""Stages cannot be skipped or made up."""

from __future__ import annotations

import ast
import dataclasses
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.package import contract
from engine.package.contract import (
    Candidate,
    Diagnostic,
    GatedPackage,
    PublishedRevision,
    StageSkipped,
    ValidatedPackage,
)
from engine.package.freeze import freeze_files
from engine.package.validate import InvalidCandidate, require_valid
from tests.helpers.package_cases import BASE, files_of

ENGINE = Path(contract.__file__).parents[1]
BUILDERS = {
    "build_candidate": {"package/freeze.py"},
    "build_validated": {"package/validate.py"},
    "build_gated": {"gate/"},
    "build_published": {"gate/", "catalog/"},
}


@dataclass(frozen=True)
class FakeReport:
    passed: bool
    tree_id: str

    def to_json(self) -> bytes:
        return b"{}"


@pytest.fixture
def package() -> ValidatedPackage:
    return require_valid(freeze_files("word_count", files_of(BASE)))


def test_a_stage_cannot_be_built_directly(package: ValidatedPackage) -> None:
    report = FakeReport(True, package.tree_id)
    with pytest.raises(StageSkipped):
        Candidate("word_count", (), "0" * 40, {}, (), seal=object())
    with pytest.raises(StageSkipped):
        ValidatedPackage(package.candidate, package.metadata, (), (), (), (), seal=None)
    with pytest.raises(StageSkipped):
        GatedPackage(package, report, seal=None)
    with pytest.raises(StageSkipped):
        PublishedRevision("word_count", "0" * 40, "0" * 40, {}, seal=None)


def test_a_stage_cannot_be_changed_by_copying(package: ValidatedPackage) -> None:
    with pytest.raises((ValueError, TypeError)):
        dataclasses.replace(package.candidate, tree_id="0" * 40)
    with pytest.raises(TypeError):
        package.candidate.pins["x"] = "y"  # type: ignore[index]


def test_a_gated_package_wants_a_report_that_passed_about_the_same_tree(package: ValidatedPackage) -> None:
    assert contract.build_gated(package, report=FakeReport(True, package.tree_id)).tree_id == package.tree_id
    for report in (FakeReport(False, package.tree_id), FakeReport(True, "0" * 40)):
        with pytest.raises(StageSkipped):
            contract.build_gated(package, report=report)


def test_each_builder_is_used_by_the_stage_it_belongs_to_only() -> None:
    used: dict[str, set[str]] = {name: set() for name in BUILDERS}
    for file in ENGINE.rglob("*.py"):
        path = file.relative_to(ENGINE).as_posix()
        names = {
            getattr(node, "id", getattr(node, "attr", "")) for node in ast.walk(ast.parse(file.read_text("utf-8")))
        }
        for name in names & set(BUILDERS):
            used[name].add(path)
        assert path == "package/contract.py" or "_SEAL" not in names, path
    for name, allowed in BUILDERS.items():
        assert {path for path in used[name] if not path.startswith(tuple(allowed))} == set(), name


def test_an_invalid_candidate_carries_every_diagnostic() -> None:
    with pytest.raises(InvalidCandidate) as caught:
        require_valid(freeze_files("word_count", {}))
    assert caught.value.exit_code == 1
    assert [found.rule for found in caught.value.diagnostics] == ["tree.no_module", *["tree.missing"] * 5]
    assert "word_count is no valid package" in caught.value.message


def test_diagnostics_are_ordered_by_file_line_and_rule() -> None:
    ordered = [Diagnostic("b", "a", 1, "", ""), Diagnostic("a", "a", 2, "", ""), Diagnostic("a", "b", 0, "", "")]
    assert sorted([ordered[2], ordered[1], ordered[0]]) == ordered
