"""The validator: one for people, planner, gate and server. From a Candidate to a ValidatedPackage or diagnostics.

Only reads what freezing took: no file, no git, no import, no execution. That a package is valid says nothing about its
tests; they have not run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.errors import InvalidPackage
from engine.package.cases import list_cases
from engine.package.contract import Candidate, Diagnostic, Metadata, Severity, ValidatedPackage, build_validated
from engine.package.rules import Findings
from engine.package.rules_entry import WORKFLOW, check_entry
from engine.package.rules_imports import check_imports, reached
from engine.package.rules_metadata import check_identity, check_metadata
from engine.package.rules_module import check_module_level
from engine.package.rules_names import check_names
from engine.package.rules_readme import README, check_readme
from engine.package.rules_tests import check_tests
from engine.package.rules_tree import check_tree
from engine.package.source import Budget, Module, parse_module


@dataclass(frozen=True)
class Validation:
    """The outcome: all diagnostics by file, line and rule, and the package when none of them is an error."""

    candidate: Candidate
    metadata: Metadata | None
    diagnostics: tuple[Diagnostic, ...]
    package: ValidatedPackage | None

    @property
    def ok(self) -> bool:
        """True when the candidate satisfies the contract; warnings do not count."""
        return self.package is not None

    def to_dict(self) -> dict[str, Any]:
        """The public JSON form. `executed_tests` is always false: nothing was executed."""
        return {
            "ok": self.ok,
            "workflow_id": self.candidate.workflow_id,
            "tree_id": self.candidate.tree_id,
            "metadata": self.metadata.to_dict() if self.metadata else None,
            "files": [{"path": file.path, "bytes": len(file.data)} for file in self.candidate.files],
            "diagnostics": [diagnostic.to_dict() for diagnostic in self.diagnostics],
            "executed_tests": False,
        }


class InvalidCandidate(InvalidPackage):
    """A candidate broke rules of the contract; `diagnostics` holds all of them, ordered."""

    code = "invalid_candidate"

    def __init__(self, workflow_id: str, diagnostics: tuple[Diagnostic, ...]) -> None:
        errors = [found for found in diagnostics if found.severity is Severity.error]
        first = errors[0]
        more = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
        where = f"{first.file or workflow_id}:{first.line}" if first.line else first.file or workflow_id
        super().__init__(
            f"{workflow_id} is no valid package: {where}: {first.message} ({first.rule}{more})", fix=first.fix
        )
        self.workflow_id = workflow_id
        self.diagnostics = diagnostics

    def details(self) -> dict[str, Any]:
        """`diagnostics`: all of them."""
        return {"diagnostics": [found.to_dict() for found in self.diagnostics]}


def validate(candidate: Candidate, *, authored: bool = False) -> Validation:
    """Judge a candidate by every rule. `authored`: a planner wrote it, so README sections are required."""
    findings = Findings(candidate.findings)
    if "" in findings.files():
        return Validation(candidate, None, findings.ordered(), None)
    present = frozenset(file.path for file in candidate.files) | findings.files()
    check_identity(candidate.workflow_id, findings)
    check_tree(present, findings)
    metadata = check_metadata(candidate, findings)
    _check_readme(candidate, findings, authored=authored)
    modules = _parse(candidate, findings)
    for module in modules.values():
        check_module_level(module, findings, entry=candidate.workflow_id if module.path == WORKFLOW else "")
        check_names(module, findings)
    check_imports(modules, findings, workflow_id=candidate.workflow_id, present=present, metadata=metadata)
    check_entry(modules, findings, workflow_id=candidate.workflow_id)
    cases = list_cases(modules.values(), findings)
    check_tests(modules, cases, findings)
    diagnostics = findings.ordered()
    if metadata is None or any(found.severity is Severity.error for found in diagnostics):
        return Validation(candidate, metadata, diagnostics, None)
    reach = reached(modules.values())
    package = build_validated(
        candidate,
        metadata=metadata,
        dependencies=reach.dependencies,
        programs=reach.programs,
        cases=cases,
        warnings=diagnostics,
    )
    return Validation(candidate, metadata, diagnostics, package)


def require_valid(candidate: Candidate, *, authored: bool = False) -> ValidatedPackage:
    """The validated package.

    Raises:
        InvalidCandidate: with every diagnostic.
    """
    validation = validate(candidate, authored=authored)
    if validation.package is None:
        raise InvalidCandidate(candidate.workflow_id, validation.diagnostics)
    return validation.package


def _check_readme(candidate: Candidate, findings: Findings, *, authored: bool) -> None:
    data = candidate.file(README)
    if data is not None:
        check_readme(data, findings, authored=authored)


def _parse(candidate: Candidate, findings: Findings) -> Mapping[str, Module]:
    """The Python files that can be parsed, by path; those with a broken text are left out."""
    broken = findings.files()
    budget = Budget()
    modules: dict[str, Module] = {}
    for file in candidate.files:
        if file.path.endswith(".py") and file.path not in broken:
            module = parse_module(file, findings, budget)
            if module is not None:
                modules[file.path] = module
    return modules
