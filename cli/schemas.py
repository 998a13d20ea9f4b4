"""The objects that `--json` prints, one model per verb, as a promise: no field appears, vanishes or changes its type unseen.

`SCHEMAS` maps each verb to its model; `ErrorObject` is what any verb prints when it fails. The verbs print what the layers below
give them; tests hold that against these models, and docs/reference/json.md is rendered from them. Nothing here runs a verb.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from engine.run.verdict import Verdict
from engine.run.view import RunView


class Object(BaseModel):
    """Base: every field is listed and described; none is added silently."""

    model_config = ConfigDict(frozen=True, extra="forbid")


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


class ErrorBody(Object):
    """A failure, as in docs/reference/exit-codes.md."""

    code: str = Field(description="Stable name.")
    message: str = Field(description="What happened, to which thing.")
    fix: str = Field(description="What to do next; may be empty.")
    exit: int = Field(description="Exit code of the process.")


class ErrorObject(Object):
    """Any verb that could not do its work. A run that ended badly is not one: it prints its Run."""

    ok: Literal[False] = Field(description="Always false.")
    error: ErrorBody = Field(description="What failed.")
    report: GateReport | None = Field(None, description="Only for tests that did not pass.")
    diagnostics: list[Diagnostic] | None = Field(
        None, description="Only for `workflows test|publish` of an invalid package."
    )


class Finding(Object):
    """One thing that was tried."""

    name: str = Field(description="What was tried.")
    state: Literal["ok", "missing", "absent"] = Field(description="`missing` is needed, `absent` is optional.")
    detail: str = Field(description="What was found.")
    fix: str = Field(description="What to do; empty when nothing.")


class Doctor(Object):
    """What is there and what is missing."""

    ok: bool = Field(description="Nothing needed is missing.")
    findings: list[Finding] = Field(description="In the order in which they build on each other.")


class ExportedImage(Object):
    """An image of cells."""

    ok: Literal[True] = Field(description="Always true.")
    image_id: str = Field(description="`sha256:` and 64 hex digits.")
    diff_ids: list[str] = Field(description="Digests of its layers.")
    locked: bool = Field(description="Made of exactly the locked versions.")
    packages: dict[str, str] = Field(description="Debian package to version.")
    guest: str = Field(description="SHA-256 of Cloche's own files inside.")
    archive: str = Field(description="Path of the archive.")


class Image(ExportedImage):
    """The current image."""

    loaded: bool = Field(description="The engine has it.")


class LockChange(Object):
    """One package whose locked version changed."""

    name: str = Field(description="Debian package.")
    old: str = Field(description="Empty for a new one.")
    new: str = Field(description="Empty for one that is gone.")


class ImageLock(Object):
    """The locked Debian packages."""

    ok: Literal[True] = Field(description="Always true.")
    packages: dict[str, str] = Field(description="Package to version.")
    changed: list[LockChange] = Field(description="With `--update`: what changed.")


class Metadata(Object):
    """What pyproject.toml says."""

    name: str = Field(description="`project.name`.")
    version: str = Field(description="`project.version`.")
    description: str = Field(description="`project.description`.")
    keywords: list[str] = Field(description="`project.keywords`.")
    permissions: list[str] = Field(description="Declared permissions, or the default.")


class File(Object):
    """One file of a package."""

    path: str = Field(description="Relative, with `/`.")
    bytes: int = Field(description="Its size.")


class Validation(Object):
    """The outcome of reading a directory."""

    ok: bool = Field(description="It keeps the contract; warnings do not count.")
    workflow_id: str = Field(description="Name of the directory.")
    tree_id: str = Field(description="Git tree id, 40 hex digits.")
    metadata: Metadata | None = Field(description="Null when it cannot be read.")
    files: list[File] = Field(description="What belongs to the package, by path.")
    diagnostics: list[Diagnostic] = Field(description="By file, line and rule.")
    executed_tests: Literal[False] = Field(description="Always false: nothing was run.")


class Tested(Object):
    """Tests that passed."""

    ok: Literal[True] = Field(description="Always true.")
    workflow_id: str = Field(description="The package.")
    tree_id: str = Field(description="Git tree id of what was tested, pins included.")
    report: GateReport = Field(description="The gate report.")


class Published(Tested):
    """A revision that was committed."""

    revision: str = Field(description="Commit id, 40 hex digits.")
    pins: dict[str, str] = Field(description="Workflow id to revision.")
    notes: list[str] = Field(description="What the owner should know.")


class Workflow(Metadata):
    """One published package at its active revision."""

    workflow_id: str = Field(description="The package.")
    revision: str = Field(description="Commit id, 40 hex digits.")
    tree_id: str = Field(description="Git tree id, 40 hex digits.")
    published_at: str = Field(description="ISO 8601, UTC.")
    pins: dict[str, str] = Field(description="Workflow id to revision.")


class CatalogProblem(Object):
    """Something in the catalog that was left out, or needs its owner."""

    name: str = Field(description="Name on disk.")
    code: str = Field(description="As in the error object.")
    message: str = Field(description="What is wrong.")
    fix: str = Field(description="What to do.")


class Workflows(Object):
    """The catalog."""

    ok: Literal[True] = Field(description="Always true.")
    workflows: list[Workflow] = Field(description="By id.")
    problems: list[CatalogProblem] = Field(description="One damaged entry hides no other.")


class WorkflowRevision(Workflow):
    """One revision in full."""

    ok: Literal[True] = Field(description="Always true.")
    active: bool = Field(description="It is what `run ID` runs.")
    files: list[str] = Field(description="Paths.")
    gate_report: GateReport | None = Field(description="Null when none is kept; for reading, nothing trusts it.")


class LogEntry(Object):
    """One publication."""

    revision: str = Field(description="Commit id, 40 hex digits.")
    tree_id: str = Field(description="Git tree id, 40 hex digits.")
    published_at: str = Field(description="ISO 8601, UTC.")
    subject: str = Field(description="What the commit says.")


class WorkflowLog(Object):
    """The revisions of a package."""

    ok: Literal[True] = Field(description="Always true.")
    workflow_id: str = Field(description="The package.")
    revisions: list[LogEntry] = Field(description="Newest first.")


class WorkflowDiff(Object):
    """What changed between two revisions."""

    ok: Literal[True] = Field(description="Always true.")
    workflow_id: str = Field(description="The package.")
    diff: str = Field(description="A patch, at most 16 MiB; empty when nothing changed.")


class Counts(Object):
    """How many calls stand how."""

    calls: int = Field(description="In the tree.")
    completed: int = Field(description="Gave a value.")
    failed: int = Field(description="Raised.")
    unknown: int = Field(description="Started without a known outcome.")
    replayed: int = Field(description="Taken from an earlier record by the newest generation.")
    executed: int = Field(description="Executed by the newest generation.")


class Run(RunView):
    """A run as it stands."""

    ok: bool = Field(description="The run completed.")
    counts: Counts = Field(description="How many calls stand how.")
    value: Any = Field(
        None,
        description="The whole result, encoded as docs/reference/codec.md says. Absent unless completed; "
        "of `runs show` only with `--result`.",
    )


class RunRow(Object):
    """A run in a list; fields as in Run."""

    run_id: str = Field(description="The run.")
    session: str = Field(description="The session it belongs to.")
    workflow_id: str = Field(description="The package.")
    revision: str = Field(description="Commit id, 40 hex digits.")
    status: str = Field(description="How it stands.")
    reason: str = Field(description="Why it is not completed.")
    created_at: float = Field(description="Seconds since 1970.")
    ended_at: float | None = Field(description="Null while it has not ended.")
    executions: int = Field(description="Executions that count towards the cap.")
    cap: int = Field(description="How many of them it may make.")
    generations: int = Field(description="Attempts.")
    counts: Counts = Field(description="How many calls stand how.")


class RunProblem(Object):
    """A run that cannot be read."""

    code: str = Field(description="As in the error object.")
    message: str = Field(description="What is wrong, with which run.")


class Runs(Object):
    """Runs of this home."""

    ok: Literal[True] = Field(description="Always true.")
    runs: list[RunRow] = Field(description="Newest first.")
    problems: list[RunProblem] = Field(description="One damaged run hides no other.")


class RunLogs(Object):
    """What the program wrote."""

    ok: Literal[True] = Field(description="Always true.")
    run_id: str = Field(description="The run.")
    stream: Literal["stdout", "stderr"] = Field(description="Which stream.")
    text: str = Field(description="All generations; bytes that are no UTF-8 as `\\xNN`, cuts said in place.")


class Verification(Verdict):
    """Whether a program, run against the record alone, does what the record says."""

    ok: bool = Field(description="Nothing differs.")


class UnverifiedRun(Object):
    """A run that could not be compared."""

    run_id: str = Field(description="Empty when not even that can be read.")
    code: str = Field(description="As in the error object.")
    message: str = Field(description="What is wrong.")


class VerifiedRuns(Object):
    """Which recorded runs of a package one revision would replay."""

    ok: bool = Field(description="All of them, and each could be compared.")
    workflow_id: str = Field(description="The package.")
    runs: list[Verification] = Field(description="Newest first.")
    problems: list[UnverifiedRun] = Field(description="Runs that say nothing; one hides no other.")


class ProbeAttempt(Object):
    """One attempt to get out."""

    group: str = Field(description="What it attacks.")
    name: str = Field(description="Its name.")
    tries: str = Field(description="What it tries.")
    expect: str = Field(
        description="What must stop it in the cell: an errno, an exception or a cause; `or` between several."
    )
    why: str = Field(description="Why that matters.")
    cell: str = Field(description="What stopped it in the cell, or how it got through.")
    control: str = Field(description="The same in an unprotected container.")
    verdict: Literal["blocked", "through", "unexpected", "unproven"] = Field(
        description="`unexpected`: stopped by something else than `expect`. `unproven`: the control was stopped as well, so that "
        "nothing follows."
    )


class Probe(Object):
    """What became of all attempts."""

    ok: bool = Field(description="Every attempt was blocked, and every control got through.")
    runtime: str = Field(description="The OCI runtime.")
    image_id: str = Field(description="The image of the cell.")
    attempts: list[ProbeAttempt] = Field(description="By group and name.")


class ListedCell(Object):
    """One cell of this home."""

    cell_id: str = Field(description="The cell.")
    container: str = Field(description="Id of its container; empty when there is only a directory.")
    kind: str = Field(description="`run`, `gate`, `probe` or `trial`.")
    state: str = Field(description="As the engine says.")
    owned: bool = Field(description="Its owner is alive.")
    expired: bool = Field(description="Its time is over.")
    idle: bool = Field(description="It waits, started and without an owner, for a job.")


class Pool(Object):
    """What became of jobs and of the cells that wait for them, counted over the life of the home."""

    warm: int = Field(description="Jobs that got a cell that waited.")
    cold: int = Field(description="Jobs for which a cell was started.")
    dead: int = Field(description="Cells found dead, or not as they were left, by a job that took them.")
    stale: int = Field(description="Cells ended because image, policy, runtime or engine had changed.")
    made: int = Field(description="Cells that were started to wait.")
    failed: int = Field(description="Failures to start one to wait, or to remove a used one.")


class Cells(Object):
    """The cells there are."""

    ok: Literal[True] = Field(description="Always true.")
    cells: list[ListedCell] = Field(description="By id.")
    pool: Pool = Field(description="Counts since the home was made.")


class ReapedCell(Object):
    """One cell that was ended."""

    cell_id: str = Field(description="The cell.")
    container: str = Field(description="Id of its container, if it had one.")
    why: Literal["owner_dead", "expired", "idle", "leftover_directory"] = Field(description="Why it was ended.")
    problem: str = Field(description="Empty when it is gone.")


class Reaping(Object):
    """What was ended."""

    ok: bool = Field(description="All of them are gone.")
    reaped: list[ReapedCell] = Field(description="By id.")


SCHEMAS: dict[str, type[BaseModel]] = {
    "doctor": Doctor,
    "workflows validate": Validation,
    "workflows test": Tested,
    "workflows publish": Published,
    "workflows list": Workflows,
    "workflows show": WorkflowRevision,
    "workflows log": WorkflowLog,
    "workflows diff": WorkflowDiff,
    "workflows verify-runs": VerifiedRuns,
    "workflows run": Run,
    "runs list": Runs,
    "runs show": Run,
    "runs watch": Run,
    "runs logs": RunLogs,
    "runs resume": Run,
    "runs cancel": Run,
    "runs decide": Run,
    "runs answer": Run,
    "runs fork": Run,
    "runs verify": Verification,
    "image build": Image,
    "image show": Image,
    "image export": ExportedImage,
    "image import": Image,
    "image lock": ImageLock,
    "sandbox probe": Probe,
    "cells list": Cells,
    "cells reap": Reaping,
}
"""Verb → what it prints with `--json` when it does not fail."""


def check(verb: str, printed: Any) -> BaseModel:
    """What a verb printed, held against its model, or against `ErrorObject` when it says `error`.

    Raises:
        pydantic.ValidationError: it is not what is documented.
    """
    failed = isinstance(printed, dict) and isinstance(printed.get("error"), dict) and "code" in printed["error"]
    return (ErrorObject if failed else SCHEMAS[verb]).model_validate(printed)
