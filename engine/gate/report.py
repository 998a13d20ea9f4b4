"""The gate report: an in-toto statement with the standard test-result predicate about one tree id.

    https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md
    https://github.com/in-toto/attestation/blob/main/spec/predicates/test-result.md

It is kept as a note on the commit, shown to people, and never trusted later: whether something is published depends on the
gate that just ran, not on a text. Fields of our own lie under `cloche` in the predicate.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from engine.errors import EngineFailure

STATEMENT: Final = "https://in-toto.io/Statement/v1"
PREDICATE: Final = "https://in-toto.io/attestation/test-result/v0.1"
REPORT_BYTES: Final = 16 * 1024 * 1024
"""Largest report that is read back; `OUTPUT_BYTES` keeps ours below it."""


class ReportDamaged(EngineFailure):
    """A note is no gate report that this version can read."""

    code = "report_damaged"


@dataclass(frozen=True)
class CaseReport:
    """What became of one expected case. `outcome`: passed, skipped, or a way of not passing; `detail` says how.

    `missing`: never reported. `repeated`: reported more than once. Otherwise the supervisor's word.
    """

    id: str
    outcome: str
    detail: str
    duration_s: float
    output: str
    entered: bool

    @property
    def ok(self) -> bool:
        """True for what does not stand in the way of passing."""
        return self.outcome in ("passed", "skipped")

    def to_dict(self) -> dict[str, object]:
        """The public JSON form."""
        return {
            "id": self.id,
            "outcome": self.outcome,
            "detail": self.detail,
            "duration_s": round(self.duration_s, 3),
            "output": self.output,
            "entered": self.entered,
        }


@dataclass(frozen=True)
class Evidence:
    """Whether the tests exercise the entry: `found`, and a sentence. `required`: without it the gate does not pass."""

    found: bool
    detail: str
    required: bool

    def to_dict(self) -> dict[str, object]:
        """The public JSON form."""
        return {"found": self.found, "detail": self.detail, "required": self.required}


@dataclass(frozen=True)
class Facts:
    """Where the tests ran: image id and policy digest (`sha256` hex), runtime, version of Cloche."""

    image: str
    policy_digest: str
    runtime: str
    engine_version: str


@dataclass(frozen=True)
class GateReport:
    """The outcome of one gate. `problems` are reasons beside single cases: none ran, a surplus report, the cell's end."""

    workflow_id: str
    tree_id: str
    pins: Mapping[str, str] = field(hash=False)
    facts: Facts
    cases: tuple[CaseReport, ...]
    problems: tuple[str, ...]
    evidence: Evidence
    started_at: datetime
    duration_s: float

    @property
    def tests_passed(self) -> bool:
        """True when every expected case passed or was skipped in plain sight, one really ran, and nothing else was odd."""
        ran = any(case.outcome == "passed" for case in self.cases)
        return ran and not self.problems and all(case.ok for case in self.cases)

    @property
    def passed(self) -> bool:
        """True when the package may be published."""
        return self.tests_passed and (self.evidence.found or not self.evidence.required)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a person should know although it passed."""
        return () if self.evidence.found else (f"Evidence of exercise is missing: {self.evidence.detail}",)

    def to_dict(self) -> dict[str, object]:
        """The statement."""
        return {
            "_type": STATEMENT,
            "subject": [{"name": self.workflow_id, "digest": {"gitTree": self.tree_id}}],
            "predicateType": PREDICATE,
            "predicate": {
                "result": "PASSED" if self.passed else "FAILED",
                "configuration": self._configuration(),
                "passedTests": self._ids("passed"),
                "warnedTests": self._ids("skipped"),
                "failedTests": [case.id for case in self.cases if not case.ok],
                "cloche": {
                    "version": 1,
                    "started_at": self.started_at.isoformat(),
                    "duration_s": round(self.duration_s, 3),
                    "tests": [case.to_dict() for case in self.cases],
                    "problems": list(self.problems),
                    "evidence": self.evidence.to_dict(),
                },
            },
        }

    def to_json(self) -> bytes:
        """The statement as UTF-8 text."""
        return json.dumps(self.to_dict(), indent=1, sort_keys=True, ensure_ascii=True).encode("ascii") + b"\n"

    def _ids(self, outcome: str) -> list[str]:
        return [case.id for case in self.cases if case.outcome == outcome]

    def _configuration(self) -> list[dict[str, object]]:
        """Resource descriptors of all that the outcome depends on beside the tree."""
        pins: list[dict[str, object]] = [
            {"name": f"pin {name}", "digest": {"gitCommit": pin}} for name, pin in sorted(self.pins.items())
        ]
        return [
            *pins,
            {"name": "image", "digest": {"sha256": self.facts.image.removeprefix("sha256:")}},
            {"name": "policy", "digest": {"sha256": self.facts.policy_digest}},
            {"name": "runtime", "uri": f"urn:cloche:runtime:{self.facts.runtime}"},
            {"name": "engine", "uri": f"urn:cloche:engine:{self.facts.engine_version}"},
        ]


def read_report(note: bytes, *, tree_id: str) -> dict[str, Any]:
    """The statement in a note, checked for shape and for being about `tree_id`.

    Raises:
        ReportDamaged: it is something else.
    """
    try:
        if len(note) > REPORT_BYTES:
            raise ValueError("it is too large")
        statement = json.loads(note)
        subject = statement["subject"][0]["digest"]["gitTree"]
        own = statement["predicate"]["cloche"]["version"]
        kind = (statement["_type"], statement["predicateType"], own)
    except (ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
        raise ReportDamaged(f"the gate report of tree {tree_id} cannot be read: {error}.") from error
    if kind != (STATEMENT, PREDICATE, 1) or subject != tree_id or not isinstance(statement, dict):
        raise ReportDamaged(f"the gate report found is not about tree {tree_id}, or of another format.")
    return statement
