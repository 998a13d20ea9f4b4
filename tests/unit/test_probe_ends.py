"""What the end of a cell, or a report of the gate, says of an attempt."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from cloche_guest import codec

from engine.gate import probe_packages
from engine.gate.report import CaseReport, Evidence, Facts, GateReport
from engine.sandbox.attempts import described
from engine.sandbox.frames import End, GuestError, Result
from engine.sandbox.outcome import Accounting, Cause, CellEnd
from engine.sandbox.probe_programs import Heard, said_of
from engine.sandbox.probe_report import Said

CUT = described("cut", b'"""Print."""\nGROUP = "resources"\nEXPECT = "output cut"\nWHY = "w"\n', kind="program")


def heard(cause: Cause, detail: str = "", *, gave: Any = None, error: GuestError | None = None, **more: Any) -> Heard:
    end = CellEnd("c0", cause, detail, more.get("exit", 0), more.get("stragglers", 0), Accounting())
    word = End(str(cause), detail, 0, (), 0, more.get("usage", {})) if more.get("word", True) else None
    result = None if gave is None and error is None else Result(codec.encode(gave), error)
    return Heard(result, word, end)


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        (heard(Cause.MESSAGE, "frame.not_json"), Said(False, "frame.not_json", "message")),
        (heard(Cause.SIGNAL, "SIGKILL"), Said(False, "SIGKILL", "signal")),
        (heard(Cause.DEADLINE), Said(False, "deadline", "")),
        (heard(Cause.DEADLINE, word=False), Said(False, "host deadline", "the supervisor did not keep its own")),
        (heard(Cause.SUPERVISOR_LOST, "frame.not_json"), Said(False, "supervisor_lost", "frame.not_json")),
        (heard(Cause.LIMIT_MEMORY, "all"), Said(False, "limit:memory", "all")),
        (heard(Cause.EXIT, exit=137), Said(False, "exit 137", "without a result")),
        (heard(Cause.EXIT, error=GuestError("NameError", "x", "")), Said(False, "NameError", "x")),
        (heard(Cause.EXIT, gave=["failed", "EPERM: no"]), Said(False, "EPERM", "no")),
        (heard(Cause.EXIT, gave=["passed", "printed"]), Said(True, "", "printed")),
        (heard(Cause.EXIT, gave=["passed", "printed"], stragglers=1), Said(True, "", "printed")),
        (heard(Cause.EXIT, gave=["passed", "printed"], usage={"stdout_cut": 9}), Said(False, "output cut", "printed")),
        (heard(Cause.EXIT, gave="forged"), Said(True, "", "gave a result of its own: 'forged'")),
    ],
)
def test_a_program_was_stopped_by_its_end_or_by_what_the_host_saw_and_got_through_otherwise(
    ended: Heard, said: Said
) -> None:
    assert said_of(CUT, "runc", ended) == said


def report(*cases: tuple[str, str]) -> GateReport:
    made = tuple(CaseReport(f"tests/test_workflow.py::{name}", outcome, "", 0.0, "", True) for name, outcome in cases)
    evidence = Evidence(False, "", True)
    now = datetime(2026, 11, 30, tzinfo=UTC)
    return GateReport("say", "0" * 40, {}, Facts("", "", "", ""), made, (), evidence, now, 1.0)


def test_a_package_is_through_when_a_case_passed_that_must_not_whatever_else_failed() -> None:
    said = probe_packages.said_of(report(("test_aa_forges", "crashed"), ("test_victim", "passed")))
    assert said.through


def test_what_becomes_of_the_others_counts_and_not_what_the_attacker_makes_of_itself() -> None:
    said = probe_packages.said_of(report(("test_aa_forges", "crashed"), ("test_victim", "failed")))
    assert (said.through, said.cause) == (False, "failed")


def test_a_sound_case_that_was_harmed_is_told() -> None:
    said = probe_packages.said_of(report(("test_victim", "failed"), ("test_zz_good", "crashed")))
    assert said.cause == "crashed, failed"
