"""On which engine a cell was made, and what it takes to call it gone when another engine answers now.

DOCKER_HOST may name another engine than it did when a command was killed, or the engine of a machine may have lost its data. An
engine that never had a cell lists none, which says nothing of it. So a cell's record names the engine that made it, by what that
engine says of itself; its address is only where to look. A cell of another engine is gone when that engine was asked and its
container ended, when this machine saw its first process and sees no process of it any more, or when its time is over, which its
supervisor keeps without anybody's help.

Engines before Docker 23 draw their id once per machine and not per data directory, so the directory counts too; where its contents
were exchanged below the same path of such a remote engine, this is not noticed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import SandboxError
from engine.files import make_directory, storage, write_atomic
from engine.sandbox import podman, remains
from engine.sandbox.docker import Engine
from engine.sandbox.engine_errors import EngineRefused
from engine.sandbox.place import Intent, boot_id

if TYPE_CHECKING:
    from engine.sandbox.service import Sandbox

KNOWN, KEPT = "engines.json", 8
SEEN = "seen"
"""Stands in a cell's directory when this machine saw the cell's first process: from where, that is which boot and pid namespace."""

ASK_S = 10.0
"""Patience with each call to an engine that is not the one in use."""

OVER_AFTER = timedelta(minutes=5)
"""Past its expiry: engine calls that took as long as they may, and the wait for a job, before its deadline began to count."""


class CellElsewhere(SandboxError):
    """A cell of a dead owner was made on another engine, which cannot be asked; it may still run there, until its time is over."""

    code = "cell_elsewhere"


def identity(engine: Engine) -> str:
    """Names the engine at whatever address it is reached: its id and data directory; "" where it does not say.

    Podman's socket draws a new id for every answer: there, the machine's name and the directory of the containers.

    Raises:
        SandboxUnavailable, EngineTimeout, EngineConnectionLost: it does not answer.
    """
    try:
        told = engine.info()
    except EngineRefused:  # a proxy before the engine may let this call through or not
        return ""
    name = f"podman {told.get('Name', '')}" if podman.speaks(engine.version()) else str(told.get("ID") or "")
    return f"{name} {told.get('DockerRootDir', '')}" if name else ""


def of_new_cell(sandbox: Sandbox) -> str:
    """As `identity`, of the engine in use, for the record of a cell; asked once for each start of a local engine. Raises as it."""
    engine = sandbox.engine
    key = f"{engine.host} {engine.mark}"
    known = sandbox.origins
    if key not in known and engine.mark:
        known.update(_known(sandbox.settings.home))
    if key not in known:
        known[key] = identity(engine)
        if engine.mark and known[key]:
            kept = dict([*_known(sandbox.settings.home).items(), (key, known[key])][-KEPT:])
            write_atomic(
                make_directory(sandbox.settings.home) / KNOWN, json.dumps(kept, indent=1).encode(), durable=False
            )
    return known[key]


def _known(home: Path) -> dict[str, str]:
    try:
        kept = json.loads((home / KNOWN).read_bytes())
    except (OSError, ValueError):
        return {}
    return {key: told for key, told in kept.items() if isinstance(told, str)} if isinstance(kept, dict) else {}


def is_elsewhere(sandbox: Sandbox, intent: Intent | None) -> bool:
    """True for a cell of another engine than the one that answers now; a record without an engine is believed to be of this one.

    Raises as `identity`.
    """
    return intent is not None and bool(intent.engine) and intent.engine != identity(sandbox.engine)


def over_at(intent: Intent) -> datetime:
    """When a cell has ended by itself, whoever looks after it."""
    return intent.expires_at + OVER_AFTER


def keep_seen(path: Path, *, pid: int, container: str) -> None:
    """Note that this machine sees the cell's first process, if it does. Not synced, as the intent is not.

    Raises:
        StorageFull, EngineFailure: as `files.storage`.
    """
    if pid and remains.carries(pid, container):
        with storage(path):
            (path / SEEN).write_text(_viewpoint(), encoding="ascii")


def _was_seen_from_here(path: Path) -> bool:
    with suppress(OSError, ValueError):
        return (path / SEEN).read_text(encoding="ascii") == _viewpoint()
    return False


def _viewpoint() -> str:
    return f"{boot_id()} {Path('/proc/self/ns/pid').readlink()}"


def end(sandbox: Sandbox, path: Path, intent: Intent | None, container: str, *, ask: bool = True) -> None:
    """End what is left of a cell of a dead owner that the engine in use does not list; on another engine only if `ask`.

    Raises:
        CellElsewhere: nobody who could know was there to be asked. RemainsAlive, and all that `Engine.destroy` raises.
    """
    remains.end(container)
    if intent is None or not is_elsewhere(sandbox, intent):
        return
    if (container and _was_seen_from_here(path)) or sandbox.clock.now() > over_at(intent):
        return
    if not ask:
        raise _refusal(sandbox, intent, "it was not asked")
    with _engine_of(sandbox, intent) as there:
        there.destroy(container or intent.container)


@contextmanager
def _engine_of(sandbox: Sandbox, intent: Intent) -> Iterator[Engine]:
    there = Engine(intent.engine_host, timeout_s=min(ASK_S, sandbox.settings.engine_timeout_s))
    try:
        try:
            found = identity(there)
        except SandboxError as error:
            raise _refusal(sandbox, intent, error.message.rstrip(".")) from error
        if found != intent.engine:
            raise _refusal(sandbox, intent, "another engine answers there")
        yield there
    finally:
        there.close()


def _refusal(sandbox: Sandbox, intent: Intent, why: str) -> CellElsewhere:
    over = f"{over_at(intent):%Y-%m-%d %H:%M:%S} UTC"
    moved = intent.engine_host != sandbox.engine.host
    way = f"with DOCKER_HOST={intent.engine_host}" if moved else "when its engine answers again"
    return CellElsewhere(
        f"cell {intent.cell} was made on another engine, at {intent.engine_host}, and may still run there ({why}).",
        fix=f"Run it again {way}; or after {over}, when the cell has ended by itself.",
    )
