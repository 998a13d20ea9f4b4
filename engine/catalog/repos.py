"""The catalog: published packages, each a git repository whose branch main is the active revision. Reads only.

The one thing it may write is what a dead publisher left undone (`unfinished`), because whoever opens a project next
completes it. A package that the owner's record does not authorise can be looked at, but is not active and does not run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, TypeVar

from engine import log
from engine.catalog import git, refs, sources, unfinished
from engine.catalog.listing import Listing, list_projects
from engine.catalog.objects import moment
from engine.catalog.refs import NOTES, CorruptEntry
from engine.catalog.summary import Summary, summarise
from engine.catalog.trees import last_line, tree_of
from engine.catalog.worktree import DestinationDirty
from engine.errors import Conflict, NotFound, StorageFull, UsageError
from engine.ids import WORKFLOW_ID

T = TypeVar("T")
_REFERENCE = re.compile(r"(?P<id>[a-z][a-z0-9_]{0,79})(?:@(?P<revision>[0-9a-f]{7,40}))?")
_DIFF_BYTES: Final = 16 * 1024 * 1024


class UnknownWorkflow(NotFound):
    """The catalog has no package of that name."""

    code = "unknown_workflow"


class UnknownRevision(NotFound):
    """The package has no such revision on its branch."""

    code = "unknown_revision"


class AmbiguousRevision(UsageError):
    """A shortened revision fits several."""

    code = "ambiguous_revision"


class BadReference(UsageError):
    """A reference is not `ID` or `ID@REVISION`."""

    code = "bad_reference"


class NotAuthorised(Conflict):
    """The owner's record does not allow this package, or revokes it."""

    code = "not_authorised"


@dataclass(frozen=True)
class LogEntry:
    """One publication: revision and tree id (40 hex), time (aware UTC), what the commit says."""

    revision: str
    tree_id: str
    published_at: datetime
    subject: str


@dataclass(frozen=True)
class PackageRevision:
    """One revision in full: its commit, metadata, pins and file names."""

    workflow_id: str
    revision: str
    tree_id: str
    published_at: datetime
    active: bool
    summary: Summary
    files: tuple[str, ...]

    def to_dict(self) -> dict[str, object]:
        """The public JSON form."""
        return {
            "workflow_id": self.workflow_id,
            "revision": self.revision,
            "tree_id": self.tree_id,
            "published_at": self.published_at.isoformat(),
            "active": self.active,
            **self.summary.to_dict(),
            "files": list(self.files),
        }


class Catalog:
    """The packages under one `$CLOCHE_HOME`. Holds no open files and no state: every answer is read anew."""

    def __init__(self, home: Path) -> None:
        self.directory = home / "catalog"
        self.projects = self.directory / "workflow"

    def list(self) -> Listing:
        """Every authorised package with its active revision, by id, and what was left out with the reason.

        One damaged entry never hides another. Raises SourcesDamaged when the owner's record cannot be read.
        """
        return list_projects(self.directory)

    def head(self, workflow_id: str, *, authorised: bool = True) -> str:
        """The active revision of a package.

        Raises:
            UnknownWorkflow: there is none of that name.
            NotAuthorised: the owner's record does not allow it (not checked with `authorised=False`).
            CorruptEntry: it is no repository as Cloche makes it.

        A work tree that a crash left behind and that cannot be completed now is logged and listed as a problem; it does
        not change what is active.
        """
        project = self.project(workflow_id)
        try:
            unfinished.complete(self.directory, workflow_id)
        except (DestinationDirty, StorageFull) as error:
            log.warning("publication.unfinished", workflow_id=workflow_id, reason=error.message)
        if authorised:
            self.check_authorised(workflow_id)
        return refs.active_revision(project)

    def resolve(self, reference: str, *, authorised: bool = True) -> tuple[str, str]:
        """Workflow id and full revision for `ID` (the active one) or `ID@REV`, REV being 7 to 40 hex digits.

        A revision counts only when branch main reaches it: what was never published is not found.

        Raises:
            BadReference, AmbiguousRevision, UnknownRevision: about the part behind the `@`.
            UnknownWorkflow, NotAuthorised, CorruptEntry: as `head`.
        """
        match = _REFERENCE.fullmatch(reference)
        if match is None:
            raise BadReference(
                f"{reference[:200]!a} names no workflow.", fix="Write ID or ID@REVISION (at least 7 hex digits)."
            )
        workflow_id, prefix = match["id"], match["revision"]
        head = self.head(workflow_id, authorised=authorised)
        if prefix is None or prefix == head:
            return workflow_id, head
        return workflow_id, self._published(workflow_id, head, prefix)

    def log(self, workflow_id: str, *, limit: int = 100) -> tuple[LogEntry, ...]:
        """The newest `limit` publications of a package, newest first."""
        head = self.head(workflow_id, authorised=False)
        found = self._reading(workflow_id, lambda objects: git.commits(objects, head, limit=limit))
        return tuple(
            LogEntry(entry.revision, entry.tree_id, moment(entry.committed_at), entry.subject) for entry in found
        )

    def show(self, reference: str) -> PackageRevision:
        """Metadata, pins and file names of a revision, also of a package that is not authorised."""
        workflow_id, revision = self.resolve(reference, authorised=False)
        files = self.files(workflow_id, revision)
        commit = self._reading(workflow_id, lambda objects: git.commit(objects, revision))
        return PackageRevision(
            workflow_id=workflow_id,
            revision=revision,
            tree_id=commit.tree_id,
            published_at=moment(commit.committed_at),
            active=revision == refs.active_revision(self.project(workflow_id)),
            summary=_summary(workflow_id, revision, files),
            files=tuple(files),
        )

    def summary(self, workflow_id: str, revision: str) -> Summary:
        """What a full revision says about itself. Raises CorruptEntry when that cannot be read."""
        return _summary(workflow_id, revision, self.files(workflow_id, revision))

    def files(self, workflow_id: str, revision: str) -> dict[str, bytes]:
        """Path → bytes of a full revision, hashed again. Raises CorruptEntry when they are not what the commit names."""
        return tree_of(self.project(workflow_id), revision)

    def diff(self, workflow_id: str, old: str, new: str) -> str:
        """The difference of two full revisions as a patch; undecodable bytes are shown as `\\xNN`, the rest after 16 MiB cut."""
        patch = self._reading(workflow_id, lambda objects: git.diff(objects, old, new))
        return patch[:_DIFF_BYTES].decode("utf-8", "backslashreplace")

    def gate_note(self, workflow_id: str, revision: str) -> bytes | None:
        """The note with the gate report on a full revision, None when there is none. Never a proof: shown, not trusted."""
        notes = refs.ref(self.project(workflow_id), NOTES)
        if notes is None:
            return None
        return self._reading(workflow_id, lambda objects: git.note(objects, notes, revision))

    def project(self, workflow_id: str) -> Path:
        """Where a package's repository lies. Raises UnknownWorkflow when there is none."""
        project = self.projects / workflow_id
        if not WORKFLOW_ID.fullmatch(workflow_id) or not project.is_dir():
            raise UnknownWorkflow(
                f"there is no published workflow {workflow_id[:100]!a}.", fix="See `cloche workflows list`."
            )
        return project

    def check_authorised(self, workflow_id: str) -> None:
        """Refuse a package that the owner's record does not allow. Raises NotAuthorised."""
        record = sources.read(self.directory)
        if record.allows(workflow_id):
            return
        why = "was revoked" if workflow_id in record.revoked else "is not authorised"
        raise NotAuthorised(
            f"{workflow_id} {why} in catalog/{sources.FILE}.",
            fix="Publish it, or change the record if you own this catalog.",
        )

    def _published(self, workflow_id: str, head: str, prefix: str) -> str:
        reached = self._reading(workflow_id, lambda objects: git.ancestors(objects, head))
        fitting = [revision for revision in reached if revision.startswith(prefix)]
        if len(fitting) > 1:
            raise AmbiguousRevision(
                f"{prefix} fits {len(fitting)} revisions of {workflow_id}.", fix="Give more digits."
            )
        if not fitting:
            raise UnknownRevision(
                f"{workflow_id} has no published revision {prefix}.", fix=f"See `cloche workflows log {workflow_id}`."
            )
        return fitting[0]

    def _reading(self, workflow_id: str, verb: Callable[[Path], T]) -> T:
        """Read objects of a package; what git cannot read is damage of that entry."""
        try:
            return verb(git.objects_of(self.project(workflow_id)))
        except git.GitFailed as error:
            raise CorruptEntry(workflow_id, last_line(error)) from error


def _summary(workflow_id: str, revision: str, files: Mapping[str, bytes]) -> Summary:
    try:
        return summarise(files.get("pyproject.toml", b""))
    except ValueError as error:
        raise CorruptEntry(workflow_id, f"revision {revision}: {error}") from error
