"""A publication's intent, and finishing what a crash left between its commit point and its end.

Before the commit point a publisher writes `catalog/workflow/.intents/<id>.json`; it removes the file when work tree, index
and `sources.json` have followed the refs. Whoever opens the project meanwhile and finds no living publisher asks where the
branch stands: at the old revision nothing was published, at the new one the rest is done now. The branch alone decides.

Refs are renamed into place one after the other, so a kill inside git can leave the note's ref ahead of the branch or behind
it; it is moved to where the branch says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from engine import log
from engine.catalog import git, refs, sources, worktree
from engine.catalog.objects import RefUpdate
from engine.catalog.refs import NOTES
from engine.catalog.trees import tree_of
from engine.errors import EngineFailure
from engine.files import Locked, fsync_directory, lock, make_directory, remove_tree, storage, write_atomic
from engine.ids import REVISION, WORKFLOW_ID


@dataclass(frozen=True)
class Intent:
    """What a publication is about to do. `old_*` are None for a new project; trees, revisions and notes are 40 hex."""

    workflow_id: str
    old_revision: str | None
    old_tree: str | None
    old_note: str | None
    new_revision: str
    new_tree: str
    new_note: str
    version: int = 1


class IntentDamaged(EngineFailure):
    """An intent file holds something else than an intent."""

    code = "intent_damaged"


@contextmanager
def project_lock(catalog: Path, workflow_id: str, *, wait: bool = True) -> Iterator[None]:
    """Be the only writer of one project, over processes; other projects are not held up.

    Raises:
        Locked: `wait` is false and another process writes it.
    """
    folder = make_directory(catalog / "workflow" / ".locks")
    with lock(folder / workflow_id, wait=wait, what=f"the project {workflow_id}"):
        yield


def announce(catalog: Path, intent: Intent) -> None:
    """Write the intent durably."""
    make_directory(_intents(catalog))
    write_atomic(_path(catalog, intent.workflow_id), json.dumps(asdict(intent)).encode())


def withdraw(catalog: Path, workflow_id: str) -> None:
    """Remove an intent that is done or came to nothing."""
    path = _path(catalog, workflow_id)
    with storage(path):
        path.unlink(missing_ok=True)
        fsync_directory(path.parent)


def pending(catalog: Path) -> list[str]:
    """The ids of projects with an intent."""
    try:
        names = sorted(path.name for path in _intents(catalog).iterdir())
    except FileNotFoundError:
        return []
    ids = (name.removesuffix(".json") for name in names if name.endswith(".json"))
    return [name for name in ids if WORKFLOW_ID.fullmatch(name)]


def complete(catalog: Path, workflow_id: str) -> None:
    """Finish a dead publisher's work on one project; does nothing while the publisher lives or when there is nothing.

    Raises:
        DestinationDirty: somebody changed the work tree since; the project stays as it is, its active revision included.
        IntentDamaged, CorruptEntry, StorageFull, EngineFailure: it could not be finished; the intent stays.
    """
    if not _path(catalog, workflow_id).exists():
        return
    try:
        with project_lock(catalog, workflow_id, wait=False):
            complete_locked(catalog, workflow_id)
    except Locked:
        return


def complete_locked(catalog: Path, workflow_id: str) -> None:
    """`complete` for the holder of the project's lock; also clears what dead publishers built aside."""
    projects = catalog / "workflow"
    for kind in ("new", "staging"):
        for leftover in projects.glob(f".{kind}-{workflow_id}-*"):
            remove_tree(leftover)
    intent = _read(catalog, workflow_id)
    if intent is None:
        return
    project = projects / workflow_id
    if not project.exists() and intent.old_revision is None:
        withdraw(catalog, workflow_id)
    else:
        finish(catalog, intent)


def finish(catalog: Path, intent: Intent) -> None:
    """Let note, work tree, index and `sources.json` follow the branch, then remove the intent.

    A branch at a third revision was moved by the owner's own git; then everything else is the owner's too.
    """
    project = catalog / "workflow" / intent.workflow_id
    active = refs.active_revision(project)
    if active == intent.old_revision:
        _move_note(project, intent, intent.old_note or git.ZERO)
    elif active == intent.new_revision:
        sources.authorise(catalog, intent.workflow_id)
        _move_note(project, intent, intent.new_note)
        new = tree_of(project, intent.new_revision)
        old = new if intent.old_revision is None else tree_of(project, intent.old_revision)
        worktree.bring_forward(project, revision=intent.new_revision, old=old, new=new)
    else:
        log.warning("publication.overtaken", workflow_id=intent.workflow_id, active=active)
    withdraw(catalog, intent.workflow_id)


def _move_note(project: Path, intent: Intent, wanted: str) -> None:
    now = refs.ref(project, NOTES) or git.ZERO
    if now != wanted and now in (intent.new_note, intent.old_note or git.ZERO):
        git.update_refs(project, [RefUpdate(NOTES, wanted, now)])


def _read(catalog: Path, workflow_id: str) -> Intent | None:
    path = _path(catalog, workflow_id)
    try:
        intent = Intent(**json.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise IntentDamaged(f"the intent of {workflow_id} cannot be read: {error}.", fix=f"Look at {path}.") from error
    new = (intent.new_revision, intent.new_tree, intent.new_note)
    old = [value for value in (intent.old_revision, intent.old_tree, intent.old_note) if value is not None]
    if intent.workflow_id != workflow_id or not all(REVISION.fullmatch(str(value)) for value in (*new, *old)):
        raise IntentDamaged(f"the intent of {workflow_id} names no revisions.", fix=f"Look at {path}.")
    return intent


def _intents(catalog: Path) -> Path:
    return catalog / "workflow" / ".intents"


def _path(catalog: Path, workflow_id: str) -> Path:
    return _intents(catalog) / f"{workflow_id}.json"
