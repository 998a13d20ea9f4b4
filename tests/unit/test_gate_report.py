"""The report is an in-toto statement about one tree, and nothing that is believed later."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from engine.gate.publish import ReportMissing, read_gate_report
from engine.gate.report import CaseReport, Evidence, Facts, GateReport, ReportDamaged, read_report
from engine.proc import run
from engine.settings import tool_environment
from tests.helpers.publishing import Publisher

TREE = "a" * 40


def report(*cases: CaseReport, **fields: Any) -> GateReport:
    given: dict[str, Any] = {
        "workflow_id": "say",
        "tree_id": TREE,
        "pins": {"other": "b" * 40},
        "facts": Facts("sha256:" + "1" * 64, "2" * 64, "runc", "0.1.0"),
        "cases": cases or (case("t::a"),),
        "problems": (),
        "evidence": Evidence(True, "t::a fails without the entry.", False),
        "started_at": datetime(2026, 11, 30, tzinfo=UTC),
        "duration_s": 1.5,
    }
    return GateReport(**{**given, **fields})


def case(name: str, outcome: str = "passed") -> CaseReport:
    return CaseReport(name, outcome, "", 0.25, "out", True)


def test_the_statement_is_in_toto_with_the_test_result_predicate() -> None:
    statement = json.loads(report(case("t::a"), case("t::b", "skipped"), case("t::c", "failed")).to_json())
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://in-toto.io/attestation/test-result/v0.1"
    assert statement["subject"] == [{"name": "say", "digest": {"gitTree": TREE}}]
    predicate = statement["predicate"]
    assert predicate["result"] == "FAILED"
    assert predicate["passedTests"] == ["t::a"]
    assert predicate["warnedTests"] == ["t::b"]
    assert predicate["failedTests"] == ["t::c"]


def test_the_configuration_holds_pins_image_policy_runtime_and_version() -> None:
    predicate = report().to_dict()["predicate"]
    assert isinstance(predicate, dict)
    assert predicate["configuration"] == [
        {"name": "pin other", "digest": {"gitCommit": "b" * 40}},
        {"name": "image", "digest": {"sha256": "1" * 64}},
        {"name": "policy", "digest": {"sha256": "2" * 64}},
        {"name": "runtime", "uri": "urn:cloche:runtime:runc"},
        {"name": "engine", "uri": "urn:cloche:engine:0.1.0"},
    ]


def test_each_test_has_id_outcome_duration_and_output() -> None:
    (test,) = json.loads(report().to_json())["predicate"]["cloche"]["tests"]
    assert (test["id"], test["outcome"], test["duration_s"], test["output"]) == ("t::a", "passed", 0.25, "out")


@pytest.mark.parametrize(
    "fields",
    [
        {"problems": ("odd",)},
        {"cases": (case("t::a"), case("t::b", "missing"))},
        {"cases": (case("t::a", "skipped"),)},
        {"cases": ()},
        {"evidence": Evidence(False, "none", True)},
    ],
)
def test_a_report_with_anything_odd_did_not_pass(fields: dict[str, Any]) -> None:
    assert not report(**{"cases": (case("t::a"),), **fields}).passed


def test_missing_evidence_that_is_not_required_is_a_warning() -> None:
    found = report(evidence=Evidence(False, "none.", False))
    assert found.passed
    assert found.warnings == ("Evidence of exercise is missing: none.",)


def test_the_same_report_gives_the_same_bytes() -> None:
    assert report().to_json() == report().to_json()


@pytest.mark.parametrize(
    "note", [b"", b"{}", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"subject": []}', b'{"subject": 3}']
)
def test_a_note_that_is_no_report_is_damage(note: bytes) -> None:
    with pytest.raises(ReportDamaged):
        read_report(note, tree_id=TREE)


def test_a_report_about_another_tree_is_not_shown_for_this_one() -> None:
    with pytest.raises(ReportDamaged):
        read_report(report().to_json(), tree_id="c" * 40)


def test_the_report_of_a_revision_is_read_back_from_its_note(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path)
    published = publisher.put("say")
    statement = read_gate_report(publisher.catalog, "say", published.revision)
    assert statement["subject"][0]["digest"]["gitTree"] == published.tree_id
    assert statement["predicate"]["result"] == "PASSED"


def test_a_revision_without_a_note_says_so(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path)
    published = publisher.put("say")
    run(["git", "update-ref", "-d", "refs/notes/gate"], env=tool_environment(), cwd=publisher.project("say"))
    with pytest.raises(ReportMissing):
        read_gate_report(publisher.catalog, "say", published.revision)


def test_git_shows_the_note_in_its_log(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path)
    publisher.put("say")
    log = run(["git", "log", "--notes=gate"], env=tool_environment(), cwd=publisher.project("say")).stdout
    assert b"in-toto.io/Statement/v1" in log
