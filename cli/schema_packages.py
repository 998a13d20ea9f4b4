"""What `workflows validate|test|publish|list|show|log|diff` print with `--json`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from cli.schema_base import Object
from cli.schema_reports import Diagnostic, GateReport


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
