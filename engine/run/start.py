"""What a new run is given, checked before anything is made, and the run.json that keeps it; what a resume needs to find again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from cloche_guest import codec

from engine.catalog.snapshots import PinnedSnapshot
from engine.errors import EngineFailure, NotFound, UsageError
from engine.ids import SESSION_ID, new_run_id, new_seed
from engine.run.permissions import granted
from engine.run.spec import RunSpec
from engine.settings import Settings


class WorkspaceGone(NotFound):
    """The directory that a run works in is not there any more."""

    code = "workspace_gone"


class SnapshotChanged(EngineFailure):
    """The catalog gives other bytes for a run's revision or pins than those it began with."""

    code = "snapshot_changed"


@dataclass(frozen=True)
class Inputs:
    """What a person gives beside the package. `task` is in codec form, `workspace` absolute and without links."""

    task: Any
    session: str
    workspace: Path
    model: str

    @classmethod
    def checked(cls, task: Any, *, session: str, workspace: Path, model: str) -> Inputs:
        """These inputs, in the form in which run.json keeps them.

        Raises:
            UsageError: the task holds something that no call can hold, the session's name has not the form of one, the
                workspace is no directory, or a path is no UTF-8.
        """
        if not SESSION_ID.fullmatch(session):
            raise UsageError(f"session {session!r} is no session name.", fix="Use a-z, 0-9, _ and -, at most 64.")
        if not _is_directory(workspace):
            raise UsageError(f"the workspace {workspace} is no directory.", fix="Give an existing directory.")
        place = workspace.resolve()
        for path in (str(place), model):
            if not _is_text(path):
                raise UsageError(f"{path!a} cannot be recorded: it is no UTF-8.", fix="Use a path in UTF-8.")
        return cls(_encoded(task), session, place, model)


def new_spec(snapshot: PinnedSnapshot, inputs: Inputs, *, settings: Settings, now: datetime) -> RunSpec:
    """The fixed part of a new run of a published revision. Raises CorruptEntry when its metadata cannot be read."""
    assert snapshot.revision is not None, "a candidate is tested, never run"
    return RunSpec(
        run_id=new_run_id(now),
        session=inputs.session,
        workflow_id=snapshot.workflow_id,
        revision=snapshot.revision,
        tree_id=snapshot.tree_id,
        pins=dict(snapshot.pins),
        snapshot_digest=snapshot.digest,
        task=inputs.task,
        seed=new_seed().hex(),
        permissions=granted(snapshot.summary().permissions),
        workspace=str(inputs.workspace),
        model=inputs.model,
        cap=settings.cap,
        active_s=settings.run_active_s,
        total_s=settings.run_total_s,
        created_at=now.timestamp(),
    )


def check_workspace(spec: RunSpec) -> None:
    """Refuse to go on where the run's files are not.

    Raises:
        WorkspaceGone: the directory is not there any more.
    """
    if not _is_directory(Path(spec.workspace)):
        raise WorkspaceGone(
            f"run {spec.run_id} works in {spec.workspace}, which is no directory any more.",
            fix="Put it back and resume again; the run is untouched.",
        )


def check_snapshot(spec: RunSpec, snapshot: PinnedSnapshot) -> None:
    """Refuse to go on with other bytes than the run began with.

    Raises:
        SnapshotChanged: the snapshot is another one.
    """
    if snapshot.digest != spec.snapshot_digest:
        raise SnapshotChanged(
            f"the snapshot of run {spec.run_id} cannot be made again: the catalog gives other bytes.",
            fix="Restore the catalog's repositories; the run is untouched.",
        )


def _encoded(task: Any) -> Any:
    try:
        return codec.encode(task)
    except codec.CodecError as error:
        raise UsageError(
            f"the task cannot be recorded: {error}.", fix="docs/reference/codec.md lists the types."
        ) from error


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
