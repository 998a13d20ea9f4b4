"""A cell's directory on the host: the written intent, and the lock that is the ownership of the cell.

`cells/<cell>/cell.json` is written, and locked, before the container is created, and is never mounted: whoever finds its
lock free knows that the owner is dead. `in/` and `out/` beside it are all that the cell sees.
"""

from __future__ import annotations

import fcntl
import os
import re
from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from engine.files import is_locked, make_directory, read_regular, remove_tree, storage, write_all

RECORD = "cell.json"
CONTAINER = "container"
"""Holds the container's id, once the engine gave one: what is left of a container that is not listed is found by it."""

_CONTAINER_ID = re.compile(r"[0-9a-f]{64}")


class Intent(BaseModel):
    """`cell.json`, version 1. `container` is the name that the container was or would have been created under."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    cell: str
    container: str
    kind: str
    image_id: str
    runtime: str
    policy: str
    uid: int
    run_id: str
    generation: int
    owner_pid: int
    boot_id: str
    created_at: datetime
    expires_at: datetime


def cells_directory(home: Path) -> Path:
    """Created, 0700, when absent."""
    return make_directory(home / "cells")


def container_name(cell_id: str) -> str:
    """Derived, so that a container whose creation was not answered is found again."""
    return f"cloche-{cell_id}"


def boot_id() -> str:
    """This boot of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


class Place:
    """An owned directory. The lock is held until `remove` or `leave`, or until the process dies."""

    def __init__(self, path: Path, intent: Intent, descriptor: int) -> None:
        self.path = path
        self.intent = intent
        self._descriptor = descriptor

    @classmethod
    def make(cls, home: Path, intent: Intent) -> Place:
        """Write the intent and own it. Not synced to disk: what a crash of the machine would lose, it has ended too.

        Raises:
            StorageFull, EngineFailure: as `files.storage`.
        """
        cells = cells_directory(home)
        aside, path = cells / f".{intent.cell}", cells / intent.cell
        make_directory(aside)
        with storage(path):
            descriptor = os.open(aside / RECORD, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            write_all(descriptor, intent.model_dump_json(indent=1).encode() + b"\n")
            aside.rename(path)
        return cls(path, intent, descriptor)

    def keep_container(self, container: str) -> None:
        """Write the container's id down. Not synced, as the intent is not.

        Raises:
            StorageFull, EngineFailure: as `files.storage`.
        """
        with storage(self.path):
            (self.path / CONTAINER).write_text(container, encoding="ascii")

    def remove(self) -> None:
        """The cell is proven gone: so is its directory."""
        remove_tree(self.path)
        os.close(self._descriptor)

    def leave(self) -> None:
        """The container may still be there: give the ownership up, for the reaper."""
        os.close(self._descriptor)


def owned(path: Path) -> bool:
    """True when a living process owns the cell directory."""
    return (path / RECORD).exists() and is_locked(path / RECORD)


def container_of(path: Path) -> str:
    """Id of the container that was made for the cell of this directory; "" when none is known."""
    try:
        text = read_regular(path / CONTAINER).decode("ascii", "replace")
    except OSError:
        return ""
    return text if _CONTAINER_ID.fullmatch(text) else ""


def intent_of(path: Path) -> Intent | None:
    """What a cell's directory announces; None when there is nothing readable, or another version's."""
    try:
        return Intent.model_validate_json(read_regular(path / RECORD))
    except (OSError, ValueError):
        return None


def held_by(home: Path, pid: int) -> tuple[str, ...]:
    """Ids of the cells that a process opened and has not ended, sorted. What cannot be read is left out."""
    found = []
    for path in sorted((home / "cells").glob(f"*/{RECORD}")):
        intent = intent_of(path.parent)
        found += [intent.cell] if intent is not None and intent.owner_pid == pid else []
    return tuple(found)
