"""The commit of a publication: the only writer of the catalog, and only of what the gate passed.

    lock the project → finish what a crash left → compare the base → make objects aside → bring them in → intent
      → one ref transaction (new project: one rename) = the commit point → owner's record, work tree, index → no intent

Up to the commit point every failure leaves refs, index, work tree, notes and reachable objects as they were. Past it the
revision is published, whatever happens; what is not finished here is finished by whoever opens the project next.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from engine.catalog import git, refs, sources, unfinished, worktree
from engine.catalog.objects import RefUpdate
from engine.catalog.refs import BRANCH, NOTES
from engine.catalog.repos import Catalog
from engine.catalog.trees import tree_of
from engine.clock import Clock
from engine.errors import ClocheError, Conflict, EngineFailure
from engine.files import fsync_directory, make_directory, remove_tree, storage
from engine.gate.staging import Made, Parents, make_objects, move_pack
from engine.package.contract import GatedPackage, PublishedRevision, SourceFile, build_published
from engine.package.pins import pins_of
from engine.package.tree_id import git_tree_id

Point = Literal["locked", "made", "moved_in", "announced", "published", "finished"]
"""Named moments of a publication, in order; `published` comes right after the commit point."""


class NameTaken(Conflict):
    """A package of this name is published, and replacing it was not asked."""

    code = "name_taken"


class BaseMoved(Conflict):
    """Somebody published this package since it was read; nothing was written."""

    code = "base_moved"


class RevisionUnchanged(Conflict):
    """The active revision has the same bytes and pins."""

    code = "revision_unchanged"


class RepositoryBusy(Conflict):
    """Another git process holds a lock in the project."""

    code = "repository_busy"


class PublishedUnfinished(EngineFailure):
    """The revision is published, but its work tree, index or authorisation is not in place yet."""

    code = "published_unfinished"


@dataclass(frozen=True)
class Base:
    """The active revision a publication starts from; all None and empty for a new package."""

    revision: str | None = None
    tree_id: str | None = None
    pins: dict[str, str] = field(default_factory=dict, hash=False)


def read_base(catalog: Catalog, workflow_id: str) -> Base:
    """Where a package stands now. Raises CorruptEntry when its project is damaged."""
    project = catalog.projects / workflow_id
    if not project.exists() and not project.is_symlink():
        return Base()
    refs.active_revision(project)
    revision = catalog.head(workflow_id, authorised=False)
    files = tree_of(project, revision)
    tree_id = git_tree_id(SourceFile(path, data) for path, data in files.items())
    return Base(revision, tree_id, pins_of(files.get("pyproject.toml", b"")))


def check_base(base: Base, workflow_id: str, *, tree_id: str, replace: bool) -> None:
    """Refuse what cannot follow `base`, before time is spent on tests.

    Raises:
        NameTaken: there is a base and `replace` is false.
        RevisionUnchanged: its tree, pins included, is the same.
    """
    if base.revision is None:
        return
    if base.tree_id == tree_id:
        raise RevisionUnchanged(
            f"{workflow_id} is unchanged: revision {base.revision} has the same bytes and pins.", fix="Nothing to do."
        )
    if not replace:
        raise NameTaken(
            f"there is a published workflow {workflow_id} already (revision {base.revision}).",
            fix="Publish with --replace to add a revision, or choose another name.",
        )


def commit(
    gated: GatedPackage,
    *,
    catalog: Catalog,
    base: Base,
    clock: Clock,
    replace: bool = False,
    subject: str = "",
    reached: Callable[[Point], None] = lambda _: None,
) -> PublishedRevision:
    """Publish what the gate passed as one commit on top of `base`. Blocking; short; safe to kill at any moment.

    `reached` is called at each point, for tests that stop there.

    Raises:
        BaseMoved, NameTaken, RevisionUnchanged, DestinationDirty, RepositoryBusy, SourceRevoked: nothing was written.
        StorageFull, GitFailed, TreeChanged: before the commit point; all is as before.
        PublishedUnfinished: past it.
    """
    make_directory(catalog.projects)
    with unfinished.project_lock(catalog.directory, gated.workflow_id):
        unfinished.complete_locked(catalog.directory, gated.workflow_id)
        sources.check_not_revoked(catalog.directory, gated.workflow_id)
        _check_still(catalog, base, gated.workflow_id)
        check_base(base, gated.workflow_id, tree_id=gated.tree_id, replace=replace)
        reached("locked")
        publication = _Publication(gated, catalog, base, clock, subject or _subject(gated), reached)
        made = publication.create() if base.revision is None else publication.extend()
    return build_published(
        gated.workflow_id, revision=made.revision, tree_id=gated.tree_id, pins=gated.package.candidate.pins
    )


@dataclass(frozen=True)
class _Publication:
    """One publication under the project's lock."""

    gated: GatedPackage
    catalog: Catalog
    base: Base
    clock: Clock
    subject: str
    reached: Callable[[Point], None]

    @property
    def project(self) -> Path:
        return self.catalog.projects / self.gated.workflow_id

    def create(self) -> Made:
        """A new project: built whole in a hidden sibling, then moved in."""
        sibling = self._aside("new")
        intent = None
        try:
            git.init(sibling)
            made = self._make(sibling / ".git", Parents(None, None))
            worktree.write_new(sibling, revision=made.revision, tree=self._tree())
            self.reached("made")
            intent = self._announce(made, note=None)
            with storage(self.project):
                sibling.rename(self.project)
                fsync_directory(self.catalog.projects)
        except BaseException:
            remove_tree(sibling)
            if intent is not None and not self.project.exists():
                unfinished.withdraw(self.catalog.directory, self.gated.workflow_id)
            raise
        self.reached("published")
        self._finish(intent)
        return made

    def extend(self) -> Made:
        """One more revision of a project that is there."""
        assert self.base.revision is not None
        worktree.check_clean(self.project, tree_of(self.project, self.base.revision))
        objects, note = git.objects_of(self.project), refs.ref(self.project, NOTES)
        staging = self._aside("staging")
        moved: list[Path] = []
        intent = None
        try:
            git.init_staging(staging, borrows=objects)
            made = self._make(staging, Parents(self.base.revision, note))
            self.reached("made")
            moved = move_pack(staging, objects)
            self.reached("moved_in")
            intent = self._announce(made, note=note)
            self._move_refs(made, note)
        except BaseException:
            if intent is None or refs.active_revision(self.project) != intent.new_revision:
                self._take_back(moved, intent)
            raise
        finally:
            remove_tree(staging)
        self.reached("published")
        self._finish(intent)
        return made

    def _make(self, git_dir: Path, parents: Parents) -> Made:
        return make_objects(git_dir, self.gated, parents=parents, at=self.clock.now(), subject=self.subject)

    def _move_refs(self, made: Made, note: str | None) -> None:
        """The commit point. The note's ref goes first: a kill between the two is decided by the branch."""
        assert self.base.revision is not None
        updates = [
            RefUpdate(NOTES, made.note, note or git.ZERO),
            RefUpdate(BRANCH, made.revision, self.base.revision),
        ]
        try:
            git.update_refs(self.project, updates)
        except git.GitFailed as error:
            _check_still(self.catalog, self.base, self.gated.workflow_id)
            if ".lock" in error.stderr:
                raise RepositoryBusy(
                    f"another git process holds a lock in the project {self.gated.workflow_id}.",
                    fix=f"If none is running, remove the *.lock files in catalog/workflow/{self.gated.workflow_id}/.git.",
                ) from error
            raise

    def _announce(self, made: Made, *, note: str | None) -> unfinished.Intent:
        intent = unfinished.Intent(
            workflow_id=self.gated.workflow_id,
            old_revision=self.base.revision,
            old_tree=self.base.tree_id,
            old_note=note,
            new_revision=made.revision,
            new_tree=self.gated.tree_id,
            new_note=made.note,
        )
        unfinished.announce(self.catalog.directory, intent)
        self.reached("announced")
        return intent

    def _take_back(self, moved: list[Path], intent: unfinished.Intent | None) -> None:
        if intent is not None:
            unfinished.finish(self.catalog.directory, intent)
        for path in moved:
            path.unlink(missing_ok=True)

    def _finish(self, intent: unfinished.Intent) -> None:
        try:
            unfinished.finish(self.catalog.directory, intent)
        except ClocheError as error:
            raise PublishedUnfinished(
                f"{intent.workflow_id} is published as {intent.new_revision}, but its project is not complete: "
                f"{error.message}",
                fix=f"{error.fix} The next command that opens it completes it.".strip(),
            ) from error
        self.reached("finished")

    def _aside(self, kind: Literal["new", "staging"]) -> Path:
        return make_directory(self.catalog.projects / f".{kind}-{self.gated.workflow_id}-{secrets.token_hex(6)}")

    def _tree(self) -> dict[str, bytes]:
        return {file.path: file.data for file in self.gated.package.candidate.files}


def _check_still(catalog: Catalog, base: Base, workflow_id: str) -> None:
    project = catalog.projects / workflow_id
    exists = project.exists() or project.is_symlink()
    now = refs.active_revision(project) if exists else None
    if now != base.revision:
        raise BaseMoved(
            f"{workflow_id} moved from {base.revision or 'nothing'} to {now or 'nothing'} meanwhile.",
            fix=f"Look at the new revision (`cloche workflows log {workflow_id}`), then publish again.",
        )


def _subject(gated: GatedPackage) -> str:
    return f"Publish {gated.workflow_id} {gated.package.metadata.version}\n"
