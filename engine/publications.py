"""Packages on their way into the catalog, and what is kept about that: validated, tested, published, reported on.

It brings the parts of a home together for it; what is valid and what passes is decided by `engine.package` and `engine.gate`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.parts import Parts

if TYPE_CHECKING:
    from engine.gate.publish import Services
    from engine.package.contract import GatedPackage, PublishedRevision
    from engine.package.validate import Validation


@dataclass(frozen=True)
class Published:
    """A publication: the revision, its gate report (the statement kept with it), and what the owner should know."""

    revision: PublishedRevision
    report: dict[str, Any]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Publications:
    """In the catalog of one home. Behind `engine.app.App`, whose methods of these names have no other contract."""

    parts: Parts

    def validate(self, directory: Path, *, authored: bool = False) -> Validation:
        """Every diagnostic of a directory; reads only, runs nothing. Raises NotFound or UsageError for no directory."""
        from engine.package.freeze import freeze
        from engine.package.validate import validate

        return validate(freeze(directory), authored=authored)

    async def test(self, directory: Path, *, repin: bool = False) -> GatedPackage:
        """Run a package's behaviour tests as publication does; publishes nothing. Raises as `engine.gate.publish.publish`."""
        from engine.gate.publish import gate_directory

        return await gate_directory(directory, services=self._services(), repin=repin)

    async def publish(self, directory: Path, *, replace: bool = False, repin: bool = False) -> Published:
        """Publish a package whose tests pass in the sandbox. Raises as `engine.gate.publish.publish`."""
        from engine.gate.publish import publish, read_gate_report

        revision = await publish(directory, services=self._services(), replace=replace, repin=repin)
        report = read_gate_report(self.parts.catalog, revision.workflow_id, revision.revision)
        return Published(revision, report, self._notes(revision))

    def gate_report(self, workflow_id: str, revision: str) -> dict[str, Any] | None:
        """The statement kept with a revision; None when there is none. For reading; nothing trusts it."""
        from engine.gate.publish import ReportMissing, read_gate_report

        try:
            return read_gate_report(self.parts.catalog, workflow_id, revision)
        except ReportMissing:
            return None

    def _notes(self, revision: PublishedRevision) -> tuple[str, ...]:
        summary = self.parts.catalog.summary(revision.workflow_id, revision.revision)
        if {"network", "workspace.read"} <= set(summary.permissions):
            return ("network together with workspace.read is a way for data to leave this machine.",)
        return ()

    def _services(self) -> Services:
        from engine.gate.publish import Services

        return Services(
            self.parts.catalog, self.parts.snapshots, self.parts.cells.gate_cell, self.parts.settings, self.parts.clock
        )
