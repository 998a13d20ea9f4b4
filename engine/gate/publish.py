"""Publishing: freeze → pins → validate → snapshot → gate → commit, as one composition; testing is the same without the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from anyio import to_thread

from engine.catalog import git, sources
from engine.catalog.pins import choose_pins
from engine.catalog.repos import Catalog
from engine.catalog.snapshots import PinnedSnapshot, Snapshots
from engine.clock import Clock
from engine.errors import InvalidPackage, NotFound
from engine.gate.cells import GateCellFactory
from engine.gate.checks import gate
from engine.gate.commit import Base, Point, check_base, commit, read_base
from engine.gate.report import read_report
from engine.package.contract import Candidate, GatedPackage, PublishedRevision, ValidatedPackage
from engine.package.freeze import freeze, with_pins
from engine.package.validate import require_valid
from engine.settings import Settings


class PermissionsUncovered(InvalidPackage):
    """A package reaches another one that declares a permission which it does not declare itself."""

    code = "permissions_uncovered"


class ReportMissing(NotFound):
    """A revision has no gate report."""

    code = "report_missing"


@dataclass(frozen=True)
class Services:
    """What testing and publishing work with; composed once, in `engine.app`."""

    catalog: Catalog
    snapshots: Snapshots
    open_cell: GateCellFactory
    settings: Settings
    clock: Clock


@dataclass(frozen=True)
class Prepared:
    """A valid candidate with its pins, on disk as a snapshot, and the active revision it was compared with."""

    package: ValidatedPackage
    snapshot: PinnedSnapshot
    base: Base


async def publish(
    directory: Path,
    *,
    services: Services,
    replace: bool = False,
    repin: bool = False,
    authored: bool = False,
    subject: str = "",
    reached: Callable[[Point], None] = lambda _: None,
) -> PublishedRevision:
    """Publish the package in `directory`, whose tests must pass in the sandbox on exactly these bytes and pins.

    `replace` lets an existing package get one more revision; `repin` takes the head of every dependency; `authored` says
    that a planner wrote it, so that missing README sections and missing evidence refuse. Cancelling before the commit
    leaves everything as it was; the commit itself is short and is not interrupted. `reached` is called at each point of it.

    Raises:
        InvalidCandidate, PermissionsUncovered: the contract is broken.
        MissingDependency, CyclicDependency, OldFormatDependency, PinConflict, NotAuthorised: about dependencies.
        NameTaken, RevisionUnchanged, BaseMoved, DestinationDirty, RepositoryBusy, SourceRevoked: about the project.
        TestsFailed, EvidenceMissing: the gate refused.
        SandboxError: there was no cell, or it failed; nothing is known of the package.
        StorageFull, EngineFailure: Cloche's own side.
    """
    candidate = await to_thread.run_sync(freeze, directory)
    return await publish_candidate(
        candidate, services=services, replace=replace, repin=repin, authored=authored, subject=subject, reached=reached
    )


async def publish_candidate(
    candidate: Candidate,
    *,
    services: Services,
    replace: bool = False,
    repin: bool = False,
    authored: bool = False,
    subject: str = "",
    reached: Callable[[Point], None] = lambda _: None,
) -> PublishedRevision:
    """`publish` for bytes that are frozen already."""
    prepared = await to_thread.run_sync(partial(_prepare, candidate, services=services, repin=repin, authored=authored))
    package, base = prepared.package, prepared.base
    check_base(base, package.workflow_id, tree_id=package.tree_id, replace=replace)
    gated = await _gate(prepared, services, authored=authored)
    last = partial(commit, catalog=services.catalog, base=base, clock=services.clock, replace=replace)
    return await to_thread.run_sync(partial(last, gated, subject=subject, reached=reached))


async def gate_directory(
    directory: Path, *, services: Services, repin: bool = False, authored: bool = False
) -> GatedPackage:
    """Do everything of `publish` that comes before the commit; the report is in the answer, or in the error.

    Raises: as `publish`, without what concerns the project.
    """
    candidate = await to_thread.run_sync(freeze, directory)
    prepared = await to_thread.run_sync(partial(_prepare, candidate, services=services, repin=repin, authored=authored))
    return await _gate(prepared, services, authored=authored)


def read_gate_report(catalog: Catalog, workflow_id: str, revision: str) -> dict[str, Any]:
    """The in-toto statement noted on a full revision; for people to read, never a reason to trust.

    Raises:
        ReportMissing: there is none.
        ReportDamaged: the note is something else, or about another tree.
    """
    note = catalog.gate_note(workflow_id, revision)
    if note is None:
        raise ReportMissing(f"{workflow_id}@{revision} has no gate report.", fix="Only published revisions have one.")
    tree_id = git.commit(git.objects_of(catalog.project(workflow_id)), revision).tree_id
    return read_report(note, tree_id=tree_id)


async def _gate(prepared: Prepared, services: Services, *, authored: bool) -> GatedPackage:
    return await gate(
        prepared.package,
        snapshot=prepared.snapshot,
        open_cell=services.open_cell,
        settings=services.settings,
        clock=services.clock,
        authored=authored,
    )


def _prepare(candidate: Candidate, *, services: Services, repin: bool, authored: bool) -> Prepared:
    """Everything that needs no cell: rules, owner's record, base, pins, permissions, snapshot."""
    catalog = services.catalog
    found = require_valid(candidate, authored=authored)
    sources.check_not_revoked(catalog.directory, candidate.workflow_id)
    base = read_base(catalog, candidate.workflow_id)
    pins = choose_pins(catalog, candidate.workflow_id, dependencies=found.dependencies, active=base.pins, repin=repin)
    package = require_valid(with_pins(candidate, pins), authored=authored)
    _check_permissions(catalog, package)
    return Prepared(package, services.snapshots.for_candidate(package), base)


def _check_permissions(catalog: Catalog, package: ValidatedPackage) -> None:
    """A package declares what it and everything it reaches may do."""
    declared = set(package.metadata.permissions)
    for name, revision in package.candidate.pins.items():
        needed = set(catalog.summary(name, revision).permissions)
        if needed - declared:
            lacking = ", ".join(sorted(needed - declared))
            raise PermissionsUncovered(
                f"{package.workflow_id} reaches {name}, which needs {lacking}.",
                fix="Declare it under `permissions` in pyproject.toml, or do without that dependency.",
            )
