"""What is said about a package, in answers and in errors: diagnostics of a validation, and the gate report."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from cli.schema_base import Object


class Diagnostic(Object):
    """One broken rule at one place."""

    rule: str = Field(description="Id of the rule.")
    severity: Literal["error", "warning"] = Field(description="A warning does not make a package invalid.")
    file: str = Field(description="Path in the package; empty for the package as a whole.")
    line: int = Field(description="From 1; 0 for the file as a whole.")
    message: str = Field(description="What is wrong.")
    fix: str = Field(description="What to do.")


class Case(Object):
    """What became of one test case."""

    id: str = Field(description="File, class, function and index.")
    outcome: str = Field(description="`passed`, `skipped`, or a way of not passing.")
    detail: str = Field(description="How it did not pass.")
    duration_s: float = Field(description="Seconds.")
    output: str = Field(description="What it printed, head and tail.")
    entered: bool = Field(description="It called the entry.")


class Evidence(Object):
    """Whether the tests exercise the entry."""

    found: bool = Field(description="A passing test fails when the entry is replaced.")
    detail: str = Field(description="The same as a sentence.")
    required: bool = Field(description="Without it the package is refused.")


class GateDetails(Object):
    """What Cloche adds to the predicate."""

    version: Literal[1] = Field(description="Format of this object.")
    started_at: str = Field(description="ISO 8601, UTC.")
    duration_s: float = Field(description="Seconds, all cases together.")
    tests: list[Case] = Field(description="Every expected case, in order.")
    problems: list[str] = Field(description="Reasons beside single cases.")
    evidence: Evidence = Field(description="Whether the tests exercise the entry.")


class TestResult(Object):
    """The predicate https://in-toto.io/attestation/test-result/v0.1."""

    __test__ = False

    result: Literal["PASSED", "FAILED"] = Field(description="The outcome.")
    configuration: list[dict[str, Any]] = Field(description="Pins, image, policy, runtime and engine, as descriptors.")
    passedTests: list[str] = Field(description="Ids of cases.")
    warnedTests: list[str] = Field(description="Ids of cases that are visibly skipped.")
    failedTests: list[str] = Field(description="Ids of cases that did not pass.")
    cloche: GateDetails = Field(description="Cloche's own part.")


class Digest(Object):
    """The id of a git tree."""

    gitTree: str = Field(description="40 hex digits.")


class Subject(Object):
    """What a statement is about."""

    name: str = Field(description="Workflow id.")
    digest: Digest = Field(description="Its tree.")


class GateReport(Object):
    """An in-toto statement, version 1, about the tests of one tree."""

    type_: Literal["https://in-toto.io/Statement/v1"] = Field(alias="_type", description="The format.")
    subject: list[Subject] = Field(description="One: the tested tree.")
    predicateType: Literal["https://in-toto.io/attestation/test-result/v0.1"] = Field(
        description="What `predicate` is."
    )
    predicate: TestResult = Field(description="The result.")
