"""A cell's directory on the host: the written intent, and the lock that is the ownership of the cell.

`cells/<cell>/cell.json` is written, and locked, before the container is created, and is never mounted: whoever finds its
lock free knows that the owner is dead, unless `idle.json` stands beside it. That is a cell which waits for a job and belongs to
whoever takes its lock first; the taker removes `idle.json` before anything else, so a cell is taken once. `in/` and `out/` are
all that the cell sees.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from engine.files import is_locked, make_directory, read_regular, remove_tree, storage, write_all, write_atomic

RECORD = "cell.json"
IDLE = "idle.json"
CONTAINER = "container"
"""Holds the container's id, once the engine gave one: what is left of a container that is not listed is found by it."""

_CONTAINER_ID = re.compile(r"[0-9a-f]{64}")


class Intent(BaseModel):
    """`cell.json`, version 1. `container` is the name that the container was or would have been created under.

    `engine` names the engine that makes it (`engine.sandbox.origin`), `engine_host` is where that answered; "" in old records.
    """

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
    idle_until: datetime | None = None
    engine: str = ""
    engine_host: str = ""


class Idle(BaseModel):
    """`idle.json`, version 1: what a taker has to know of a started and attested cell beyond its intent.

    `key` names what it is good for (`engine.sandbox.pool`). `pid` is its first process as this machine sees it, 0 when it does not;
    `until` is when it ends by itself. `host_kernel` and `podman` are what its engine said of itself: who takes it need not ask.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    key: str
    container_id: str
    pid: int
    nonce: str
    until: datetime
    host_kernel: str
    podman: bool


def cells_directory(home: Path) -> Path:
    """Created, 0700, when absent."""
    return make_directory(home / "cells", durable=False)


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
        make_directory(aside, durable=False)
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

    @classmethod
    def take(cls, path: Path, *, key: str) -> tuple[Place, Idle] | None:
        """Own an idle cell; None when it is not to be had: taken, ended, of another key, or not readable.

        From here on it is used: a taker that dies leaves a cell without an owner, like any other.
        """
        try:
            descriptor = os.open(path / RECORD, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return None
        try:
            _lock_idle(descriptor, path)
            idle = read_idle(path)
            if idle is None or idle.key != key:
                raise BlockingIOError
            intent = Intent.model_validate_json(os.pread(descriptor, 64 * 1024, 0))
            (path / IDLE).unlink()
        except (OSError, ValueError):
            os.close(descriptor)
            return None
        return cls(path, intent, descriptor), idle

    def claim_for(self, intent: Intent) -> None:
        """Write down whose it is now, into the same file, whose lock is the ownership."""
        self.intent = intent
        data = intent.model_dump_json(indent=1).encode() + b"\n"
        with storage(self.path):
            os.pwrite(self._descriptor, data, 0)
            os.ftruncate(self._descriptor, len(data))

    def shelve(self, idle: Idle) -> None:
        """Give the cell up to whoever takes it."""
        write_atomic(self.path / IDLE, idle.model_dump_json(indent=1).encode() + b"\n", durable=False)
        os.close(self._descriptor)

    def remove(self) -> None:
        """The cell is proven gone: so is its directory."""
        remove_tree(self.path)
        os.close(self._descriptor)

    def leave(self) -> None:
        """The container may still be there: give the ownership up, for the reaper."""
        os.close(self._descriptor)


def _lock_idle(descriptor: int, path: Path) -> None:
    """Whoever only looks whether it is owned holds the lock for an instant; a taker keeps it and removes `idle.json`.

    Raises:
        BlockingIOError: somebody keeps it.
    """
    for pause_s in (0.0005, 0.001, 0.002, 0.005, 0.01):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not (path / IDLE).exists():
                raise
            time.sleep(pause_s)
        else:
            return
    raise BlockingIOError


@contextmanager
def unowned(path: Path) -> Iterator[bool]:
    """True, with the lock held for the block, for a directory that nobody owns; False for one that somebody owns or removes.

    The record is never created: in a directory that its owner is removing a new one would be nobody's.
    """
    try:
        descriptor = os.open(path / RECORD, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        yield False
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield os.fstat(descriptor).st_nlink > 0
    finally:
        os.close(descriptor)


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


def read_idle(path: Path) -> Idle | None:
    """What stands in a cell's `idle.json`; None when there is none, or none that can be read."""
    try:
        return Idle.model_validate_json((path / IDLE).read_bytes())
    except (OSError, ValueError):
        return None


def held_by(home: Path, pid: int) -> tuple[str, ...]:
    """Ids of the cells that a process opened and has not ended, sorted. What cannot be read is left out."""
    found = []
    for path in sorted((home / "cells").glob(f"*/{RECORD}")):
        intent = intent_of(path.parent)
        if intent is not None and intent.owner_pid == pid and not (path.parent / IDLE).exists():
            found.append(intent.cell)
    return tuple(found)
