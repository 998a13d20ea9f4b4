"""Cells without an owner, ended: works from the engine's list of labels, never from memory.

A cell of this home whose `cell.json` nobody has locked belongs to a dead process, unless it waits for a job, runs, and may wait
on; one past its expiry belongs to nobody whatever its owner says. Both are killed, waited for, removed and seen absent, with every
process that carries the container's id, and the uid is free again. Other homes' cells are not looked at.

A cell that another engine made is left, and listed, until it is known to be gone (`engine.sandbox.origin`). That engine is asked
only when somebody waits for the answer: others' work does not wait for an engine that may not answer.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from engine import ids, log
from engine.errors import SandboxError
from engine.files import remove_tree
from engine.sandbox import labels, origin, remains, uids
from engine.sandbox.docker import Container
from engine.sandbox.place import IDLE, RECORD, Intent, cells_directory, container_of, intent_of, owned, unowned

if TYPE_CHECKING:
    from engine.sandbox.service import Sandbox

MADE_ELSEWHERE = "made elsewhere"
"""How `ListedCell.state` begins for a cell of another engine."""

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
    number of processes where some live on without it, or `made elsewhere` and by which engine, where that was another one.
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
        found[path.name] = _unlisted(sandbox, path, identity, living=len(processes.get(identity, ())))
    return [found[name] for name in sorted(found)]


def _unlisted(sandbox: Sandbox, path: Path, container: str, *, living: int) -> ListedCell:
    """A cell that the engine does not list."""
    intent = intent_of(path)
    if intent is not None and origin.is_elsewhere(sandbox, intent):
        over, waits = sandbox.clock.now() > origin.over_at(intent), _waits_elsewhere(sandbox, path, intent)
        state = f"{MADE_ELSEWHERE}, at {intent.engine_host}"
        return ListedCell(path.name, container or intent.container, intent.kind, state, owned(path), over, waits)
    state = f"no container, {living} processes" if living else "no container"
    return ListedCell(path.name, container if living else "", "", state, owned(path), False)


def reap(sandbox: Sandbox, *, idle: bool = False, everywhere: bool = False) -> list[Reaped]:
    """End what has no owner and remove what is left of it; what could not be ended is in the list with its problem.

    `idle`: also the cells that wait for a job. `everywhere`: also the cells of other engines, which are asked at their addresses.

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
        left = path.name.lstrip(".") not in alive
        one = _reap_directory(sandbox, path, idle=idle, ask=everywhere) if left else None
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


def end_unlisted(sandbox: Sandbox, cell_id: str) -> bool:
    """End a cell that the engine in use does not list, wherever it was made, and remove its directory.

    False while its owner still has it.

    Raises:
        CellElsewhere, and all that `origin.end` raises: it may still be there.
    """
    path = cells_directory(sandbox.settings.home) / cell_id
    if not path.is_dir():
        return True  # a directory goes when its cell is known to be gone
    with _unowned(sandbox, path) as is_free:
        if is_free:
            _remove(sandbox, path, ask=True)
    return is_free


def _reap_directory(sandbox: Sandbox, path: Path, *, idle: bool, ask: bool) -> Reaped | None:
    """Remove a directory that no process owns and no container belongs to; a very young one may be in the making, or going."""
    if path.name.startswith(".") and _is_young(sandbox, path):
        return None
    intent = intent_of(path)
    if intent is not None and not idle and _waits_elsewhere(sandbox, path, intent):
        return None
    with _unowned(sandbox, path) as is_free:
        if not is_free:
            return None
        try:
            _remove(sandbox, path, ask=ask)
        except origin.CellElsewhere as error:
            return Reaped(path.name, container_of(path), "leftover_directory", error.message) if ask else None
        except SandboxError as error:
            return Reaped(path.name, container_of(path), "leftover_directory", error.message)
    return Reaped(path.name, "", "leftover_directory")


def _remove(sandbox: Sandbox, path: Path, *, ask: bool) -> None:
    """Of a directory without an owner or a listed container. Raises as `origin.end`."""
    intent = intent_of(path)
    origin.end(sandbox, path, intent, container_of(path), ask=ask)
    if intent is not None:
        uids.clear(intent.uid, intent.cell)
    remove_tree(path)


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


def _waits_elsewhere(sandbox: Sandbox, path: Path, intent: Intent) -> bool:
    """As `_waits`, for a cell of another engine than the one in use."""
    in_time = intent.idle_until is not None and sandbox.clock.now() < intent.idle_until
    return in_time and (path / IDLE).exists() and origin.is_elsewhere(sandbox, intent)


def _expired(sandbox: Sandbox, container: Container) -> bool:
    expires = container.labels.get(labels.EXPIRES, "")
    return not expires.isdigit() or sandbox.clock.now().timestamp() > int(expires)
