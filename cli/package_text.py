"""What the verbs about packages print for people: diagnostics, gate reports, and the details of a refusal."""

from __future__ import annotations

from typing import Any

from cli import output
from engine.errors import GateRefused, InvalidPackage

CASE_LINES = 40
"""Lines of output shown of a case that did not pass, at most: the last ones."""


def show_diagnostics(diagnostics: list[dict[str, Any]]) -> None:
    """One line per diagnostic and one for what to do, as compilers print them."""
    for item in diagnostics:
        place = f"{item['file']}:{item['line']}" if item["line"] else item["file"] or "(package)"
        output.line(f"{place}: {item['severity']} [{item['rule']}] {item['message']}")
        output.line(f"    → {item['fix']}")


def show_refusal(refused: InvalidPackage | GateRefused) -> None:
    """For people, what `--json` has beside the error."""
    if not output.mode.json:
        details = refused.details()
        show_diagnostics(details.get("diagnostics", []))
        if "report" in details:
            show_report(details["report"])


def show_report(statement: dict[str, Any]) -> None:
    """One line per case of a gate report, with the output of those that did not pass, and a summary."""
    predicate = statement["predicate"]
    told = predicate["cloche"]
    for case in told["tests"]:
        mark = {"passed": "✓", "skipped": "-"}.get(case["outcome"], "✗")
        output.line(f"{mark} {case['id']}  {case['outcome']}, {case['duration_s']:.2f} s")
        for text in (case["detail"], case["output"]) if mark == "✗" else ():
            for row in text.rstrip().splitlines()[-CASE_LINES:]:
                output.line(f"    {row}")
    for problem in told["problems"]:
        output.line(f"✗ {problem}")
    if predicate["result"] == "PASSED" and not told["evidence"]["found"]:
        output.note(f"warning: the tests do not exercise the entry: {told['evidence']['detail']}")
    passed = len(predicate["passedTests"])
    tree = statement["subject"][0]["digest"]["gitTree"]
    output.note(
        f"{passed} of {len(told['tests'])} cases passed in the sandbox, {told['duration_s']:.1f} s; tree {tree}"
    )


def gate_line(report: dict[str, Any] | None) -> str:
    """One line about the report kept with a revision."""
    if report is None:
        return "no report is kept with this revision"
    predicate = report.get("predicate", {})
    return f"{predicate.get('result', '?')}, {len(predicate.get('passedTests', []))} tests passed"
