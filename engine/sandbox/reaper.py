"""Cells without an owner, ended: works from the engine's list of labels, never from memory.

A cell of this home whose `cell.json` nobody has locked belongs to a dead process, unless it waits for a job, runs, and may wait
on; one past its expiry belongs to nobody whatever its owner says. Both are killed, waited for, removed and seen absent, with every
process that carries the container's id, and the uid is free again. Other homes' cells are not looked at.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from engine import ids, log
from engine.errors import SandboxError
from engine.files import remove_tree
from engine.sandbox import labels, remains, uids
from engine.sandbox.docker import Container
from engine.sandbox.place import IDLE, RECORD, cells_directory, container_of, intent_of, owned, unowned

if TYPE_CHECKING:
    from engine.sandbox.service import Sandbox

NEW_S = 60.0
"""A directory without a record, or aside, may be one that is just being made or removed; older ones are not."""


@dataclass(frozen=True)
class Reaped:
    """One thing that the reaper ended or could not end. `problem` is empty when it is gone."""

    cell_id: str
    container: str
    why: Literal["owner_dead", "expired", "idle", "leftover_directory"]
    problem: str = ""


@dataclass(frozen=True)
class ListedCell:
    """One cell of this home: in the engine's list, on disk, or both. `state` is the engine's word, or `no container`, with the
    number of processes where some live on without it.
    """

    cell_id: str
    container: str
    kind: str
    state: str
    owned: bool
    expired: bool
    idle: bool = False


def list_cells(sandbox: Sandbox) -> list[ListedCell]:
    """Every cell of this home, ordered by id.

    Raises:
        SandboxUnavailable, EngineTimeout: the engine does not answer.
    """
    found = {}
    for container in _containers(sandbox):
        cell_id = container.labels.get(labels.CELL, "")
        path = cells_directory(sandbox.settings.home) / cell_id
        found[cell_id] = ListedCell(
            cell_id=cell_id,
            container=container.id,
            kind=container.labels.get(labels.KIND, ""),
            state=container.state,
            owned=bool(cell_id) and owned(path),
            expired=_expired(sandbox, container),
            idle=bool(cell_id) and _waits(sandbox, container, path),
        )
    unlisted = {path: container_of(path) for path in _directories(sandbox) if path.name not in found}
    processes = remains.find(unlisted.values())
    for path, identity in unlisted.items():
        living = len(processes.get(identity, ()))
        state = f"no container, {living} processes" if living else "no container"
        found[path.name] = ListedCell(path.name, identity if living else "", "", state, owned(path), False)
    return [found[name] for name in sorted(found)]


def reap(sandbox: Sandbox, *, idle: bool = False) -> list[Reaped]:
    """End what has no owner and remove what is left of it; what could not be ended is in the list with its problem.

    `idle`: also the cells that wait for a job.

    Raises:
        SandboxUnavailable, EngineTimeout: the engine does not answer; nothing was touched.
    """
    reaped = []
    containers = _containers(sandbox)
    for container in containers:
        one = _reap_container(sandbox, container, idle=idle)
        if one is not None:
            reaped.append(one)
    alive = {container.labels.get(labels.CELL, "") for container in _containers(sandbox)}
    for path in _directories(sandbox):
        one = _reap_directory(sandbox, path) if path.name.lstrip(".") not in alive else None
        if one is not None:
            reaped.append(one)
    for item in reaped:
        log.info("cell.reaped", cell=item.cell_id, why=item.why, problem=item.problem)
    return reaped


def _reap_container(sandbox: Sandbox, container: Container, *, idle: bool) -> Reaped | None:
    cell_id = container.labels.get(labels.CELL, "")
    path = cells_directory(sandbox.settings.home) / cell_id
    known = ids.CELL_ID.fullmatch(cell_id) is not None and path.is_dir()
    expired = _expired(sandbox, container)
    waits = known and _waits(sandbox, container, path)
    if waits and not idle:
        return None
    with _unowned(sandbox, path) if known else nullcontext(True) as is_free:
        if not is_free and not expired:
            return None
        why: Literal["owner_dead", "expired", "idle"] = "idle" if waits else "expired" if expired else "owner_dead"
        try:
            sandbox.engine.destroy(container.id)
            remains.end(container.id)
        except SandboxError as error:
            return Reaped(cell_id, container.id, why, error.message)
        uid = container.labels.get(labels.UID, "")
        uids.clear(int(uid) if uid.isdigit() else 0, cell_id)
        if known:
            remove_tree(path)
    return Reaped(cell_id, container.id, why)


def _reap_directory(sandbox: Sandbox, path: Path) -> Reaped | None:
    """Remove a directory that no process owns and no container belongs to; a very young one may be in the making, or going."""
    if path.name.startswith(".") and _is_young(sandbox, path):
        return None
    identity, intent = container_of(path), intent_of(path)
    with _unowned(sandbox, path) as is_free:
        if not is_free:
            return None
        try:
            remains.end(identity)
            if intent is not None:
                uids.clear(intent.uid, intent.cell)
        except SandboxError as error:
            return Reaped(path.name, identity, "leftover_directory", error.message)
        remove_tree(path)
    return Reaped(path.name, "", "leftover_directory")


def _unowned(sandbox: Sandbox, path: Path) -> AbstractContextManager[bool]:
    """As `place.unowned`. What has no record for so long that nobody makes or removes it any more has no owner either."""
    return unowned(path) if (path / RECORD).exists() else nullcontext(not _is_young(sandbox, path))


def _is_young(sandbox: Sandbox, path: Path) -> bool:
    """Also true for one that is gone."""
    try:
        return sandbox.clock.now().timestamp() - path.stat().st_mtime < NEW_S
    except FileNotFoundError:
        return True


def _containers(sandbox: Sandbox) -> tuple[Container, ...]:
    return sandbox.engine.containers({labels.HOME: sandbox.home_id, labels.CELL: None})


def _directories(sandbox: Sandbox) -> list[Path]:
    return sorted(path for path in cells_directory(sandbox.settings.home).iterdir() if path.is_dir())


def _waits(sandbox: Sandbox, container: Container, path: Path) -> bool:
    """True for an idle cell that may go on waiting."""
    until = container.labels.get(labels.IDLE_UNTIL, "")
    in_time = until.isdigit() and sandbox.clock.now().timestamp() < int(until)
    return in_time and container.state == "running" and (path / IDLE).exists()


def _expired(sandbox: Sandbox, container: Container) -> bool:
    expires = container.labels.get(labels.EXPIRES, "")
    return not expires.isdigit() or sandbox.clock.now().timestamp() > int(expires)
