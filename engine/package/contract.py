"""The stages of a package as types: Candidate, ValidatedPackage, GatedPackage, PublishedRevision.

    directory ─freeze─▶ Candidate ─validate─▶ ValidatedPackage ─gate─▶ GatedPackage ─commit─▶ PublishedRevision

Each arrow takes the stage before it, so leaving one out is a type error; each constructor wants a seal that only this
module holds, so it is an error at run time too. The four builders at the end are for the function that makes the stage
and for nobody else (a test looks for other callers). This module reads no files and judges nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Final, Literal, Protocol, runtime_checkable

from engine.errors import EngineFailure

Spelling = Literal["cloche", "openprogram"]


class StageSkipped(EngineFailure):
    """A stage was built by something else than its own function, or from values that do not belong together."""

    code = "stage_skipped"


class _Seal:
    """Proof that a stage value is built by this module."""


_SEAL: Final = _Seal()


def _check_seal(stage: object, seal: object) -> None:
    if seal is not _SEAL:
        name = type(stage).__name__
        raise StageSkipped(f"{name} was built directly.", fix="Go through freeze, validate, gate and commit.")


@dataclass(frozen=True, order=True)
class SourceFile:
    """One file of a package: relative POSIX path and the exact bytes."""

    path: str
    data: bytes


class Severity(Enum):
    """Errors make a candidate invalid; warnings are shown and recorded."""

    error = "error"
    warning = "warning"


@dataclass(frozen=True)
class Diagnostic:
    """One broken rule at one place. `line` counts from 1; 0 means the file as a whole. `file` is "" for the whole tree."""

    rule: str
    file: str
    line: int
    message: str
    fix: str
    severity: Severity = Severity.error

    @property
    def sort_key(self) -> tuple[str, int, str, str]:
        """File, line, rule, then the message, so that any set of diagnostics has one order."""
        return self.file, self.line, self.rule, self.message

    def __lt__(self, other: Diagnostic) -> bool:
        return self.sort_key < other.sort_key

    def to_dict(self) -> dict[str, str | int]:
        """The public JSON form."""
        return {
            "rule": self.rule,
            "severity": self.severity.value,
            "file": self.file,
            "line": self.line,
            "message": self.message,
            "fix": self.fix,
        }


@dataclass(frozen=True)
class Candidate:
    """The bytes of a directory that wants to become a revision, frozen: later changes on disk have no effect.

    `files` are sorted by path. `tree_id` is the git tree id of exactly these files (40 hex). `pins` is what their
    `workflow-dependencies` table says (workflow id → 40-hex revision). `findings` are the broken rules that only
    freezing could see (links, special files, bounds, text encoding); a file that breaks one may be missing in `files`.
    """

    workflow_id: str
    files: tuple[SourceFile, ...]
    tree_id: str
    pins: Mapping[str, str] = field(hash=False)
    findings: tuple[Diagnostic, ...]
    seal: InitVar[object]

    def __post_init__(self, seal: object) -> None:
        _check_seal(self, seal)

    def file(self, path: str) -> bytes | None:
        """The bytes at `path`, or None when the candidate has no such file."""
        return next((file.data for file in self.files if file.path == path), None)


@dataclass(frozen=True)
class Metadata:
    """What pyproject.toml says about a package. `spelling` is the tool table that publication writes pins under."""

    name: str
    version: str
    description: str
    keywords: tuple[str, ...]
    permissions: tuple[str, ...]
    spelling: Spelling

    def to_dict(self) -> dict[str, object]:
        """The public JSON form."""
        return {
            "name": self.name,
            "version": self.version,
            "description": self.description,
            "keywords": list(self.keywords),
            "permissions": list(self.permissions),
        }


@dataclass(frozen=True, order=True)
class TestCase:
    """One case the gate expects, found in the source. `cls` is "" outside a class.

    `index` counts from 0 within `total` cases of the function; `total` is 1 without parameters. `skip_reason` is set
    for a case that is visibly marked as skipped.
    """

    __test__ = False

    file: str
    cls: str
    function: str
    index: int
    total: int
    skip_reason: str | None = field(default=None, compare=False)

    @property
    def id(self) -> str:
        """`tests/test_workflow.py::TestX::test_y[1]`; no index when the function has one case only."""
        name = "::".join(part for part in (self.file, self.cls, self.function) if part)
        return f"{name}[{self.index}]" if self.total > 1 else name


@dataclass(frozen=True)
class ValidatedPackage:
    """A candidate that broke no rule. `dependencies` and `programs` are what non-test code imports, sorted."""

    candidate: Candidate
    metadata: Metadata
    dependencies: tuple[str, ...]
    programs: tuple[str, ...]
    cases: tuple[TestCase, ...]
    warnings: tuple[Diagnostic, ...]
    seal: InitVar[object]

    def __post_init__(self, seal: object) -> None:
        _check_seal(self, seal)

    @property
    def workflow_id(self) -> str:
        return self.candidate.workflow_id

    @property
    def tree_id(self) -> str:
        return self.candidate.tree_id


@runtime_checkable
class Report(Protocol):
    """What the gate says about one tree id; the class is the gate's own."""

    @property
    def passed(self) -> bool: ...

    @property
    def tree_id(self) -> str: ...

    def to_json(self) -> bytes: ...


@dataclass(frozen=True)
class GatedPackage:
    """A package whose own tests passed, on exactly its bytes, in the sandbox."""

    package: ValidatedPackage
    report: Report
    seal: InitVar[object]

    def __post_init__(self, seal: object) -> None:
        _check_seal(self, seal)

    @property
    def workflow_id(self) -> str:
        return self.package.workflow_id

    @property
    def tree_id(self) -> str:
        return self.package.tree_id


@dataclass(frozen=True)
class PublishedRevision:
    """A commit in the catalog: `revision` and `tree_id` are 40 hex digits."""

    workflow_id: str
    revision: str
    tree_id: str
    pins: Mapping[str, str] = field(hash=False)
    seal: InitVar[object]

    def __post_init__(self, seal: object) -> None:
        _check_seal(self, seal)


def _sealed_pins(pins: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType(dict(sorted(pins.items())))


def build_candidate(
    workflow_id: str,
    *,
    files: Sequence[SourceFile],
    tree_id: str,
    pins: Mapping[str, str],
    findings: Sequence[Diagnostic],
) -> Candidate:
    """For `engine.package.freeze` alone."""
    return Candidate(workflow_id, tuple(files), tree_id, _sealed_pins(pins), tuple(findings), seal=_SEAL)


def build_validated(
    candidate: Candidate,
    *,
    metadata: Metadata,
    dependencies: Sequence[str],
    programs: Sequence[str],
    cases: Sequence[TestCase],
    warnings: Sequence[Diagnostic],
) -> ValidatedPackage:
    """For `engine.package.validate` alone."""
    if any(finding.severity is Severity.error for finding in candidate.findings):
        raise StageSkipped(f"{candidate.workflow_id} has findings that make it invalid.")
    return ValidatedPackage(
        candidate, metadata, tuple(dependencies), tuple(programs), tuple(cases), tuple(warnings), seal=_SEAL
    )


def build_gated(package: ValidatedPackage, *, report: Report) -> GatedPackage:
    """For `engine.gate` alone.

    Raises:
        StageSkipped: the report did not pass, or is about another tree.
    """
    if not report.passed or report.tree_id != package.tree_id:
        raise StageSkipped(f"the report does not say that tree {package.tree_id} passed.", fix="Run the gate again.")
    return GatedPackage(package, report, seal=_SEAL)


def build_published(workflow_id: str, *, revision: str, tree_id: str, pins: Mapping[str, str]) -> PublishedRevision:
    """For the committer and reader of the catalog (`engine.gate`, `engine.catalog`) alone."""
    return PublishedRevision(workflow_id, revision, tree_id, _sealed_pins(pins), seal=_SEAL)
