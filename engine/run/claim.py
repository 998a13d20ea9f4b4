"""Ownership of a run: one process at a time writes its journal, under a lock that the kernel frees when that process dies."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from cloche_guest import codec

from engine.errors import Conflict
from engine.files import Locked, lock, read_regular, storage, write_all
from engine.points import reached
from engine.run.events import Event, Line, RunStarted
from engine.run.folder import Run
from engine.run.history import History
from engine.run.journal import JournalWriter, appending

_CLAIM_TRIES = 10
_CLAIM_PAUSE_S = 0.02


class RunOwned(Conflict):
    """Another process executes this run; it is named when it left its name."""

    code = "run_owned"


@dataclass(frozen=True)
class Owner:
    """Who executes a run: process id and host name, as the owner wrote them. For people; the lock is what counts."""

    pid: int
    host: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


def this_process() -> Owner:
    """The owner that we would be."""
    return Owner(os.getpid(), socket.gethostname())


class Recorder:
    """The claimed run: its journal, appended and folded together. Only `claimed` makes one."""

    def __init__(self, run: Run, writer: JournalWriter, history: History, torn: int) -> None:
        self.run = run
        self.history = history
        self.torn = torn
        self._writer = writer

    @property
    def head(self) -> str:
        """Hash of the last line."""
        return self._writer.head

    @property
    def size(self) -> int:
        """Bytes of the journal."""
        return self._writer.size

    def forget(self) -> None:
        """Let go of the fold while nothing is recorded; `recall` before anything else."""
        self.history = History()

    def recall(self) -> None:
        """Fold the journal again.

        Raises:
            JournalDamaged, EngineFailure: it cannot be read.
        """
        _, self.history = self.run.read()

    def record(self, *events: Event) -> tuple[Line, ...]:
        """Have the events on disk and in `history`, in the current generation (`run.started` opens the next one).

        Raises:
            StorageFull, EngineFailure: nothing of them was recorded.
        """
        generation = self.history.generation + isinstance(events[0], RunStarted)
        # Before it is written: an event that cannot stand there would make the whole journal unreadable.
        self.history.check(Line(self.history.seq + 1, 0.0, generation, events[0], ""))
        lines = self._writer.append(generation, *events)
        self.history.take(lines[0])
        for line in lines[1:]:
            self.history.apply(line)
        return lines


@contextmanager
def claimed(run: Run) -> Iterator[Recorder]:
    """Own the run for the block: nobody else writes it meanwhile, and the kernel frees it when this process dies.

    Raises:
        RunOwned: another process owns it.
        JournalDamaged, StorageFull, EngineFailure: the record cannot be read or opened.
    """
    with _locked(run) as descriptor:
        reached("claim.locked")
        journal, history = run.read()
        _write_owner(descriptor, run.folder / "run.lock")
        reached("claim.named")
        _remove_half_written(run.folder)
        with appending(run.journal_path, journal=journal, clock=run.clock) as writer:
            yield Recorder(run, writer, history, journal.torn)


def _remove_half_written(folder: Path) -> None:
    """Remove what dead owners wrote aside and did not come to rename. A cancel request is not the owner's and is left alone."""
    for parent in (folder, folder / "blobs"):
        with storage(parent), suppress(FileNotFoundError), os.scandir(parent) as entries:
            for entry in entries:
                if entry.name.startswith(".") and not entry.name.startswith(".cancel."):
                    Path(entry.path).unlink(missing_ok=True)


@contextmanager
def _locked(run: Run) -> Iterator[int]:
    path = run.folder / "run.lock"
    # Looking whether a run is owned takes the lock for a moment, so one refusal proves nothing.
    for attempt in range(_CLAIM_TRIES):
        try:
            held = lock(path, wait=False, what=f"run {run.run_id}")
            descriptor = held.__enter__()
            break
        except Locked as error:
            if attempt == _CLAIM_TRIES - 1:
                owner = read_owner(run)
                raise RunOwned(
                    f"run {run.run_id} is being executed by {owner or 'another process'}.",
                    fix="Watch it, cancel it, or wait for its end.",
                ) from error
            time.sleep(_CLAIM_PAUSE_S)
    try:
        yield descriptor
    finally:
        held.__exit__(None, None, None)


def read_owner(run: Run) -> Owner | None:
    """Who wrote the lock file last; None when nobody did."""
    try:
        found = json.loads(read_regular(run.folder / "run.lock"))
        return Owner(int(found["pid"]), str(found["host"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write_owner(descriptor: int, path: Path) -> None:
    owner = this_process()
    with storage(path):
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        write_all(descriptor, codec.text({"pid": owner.pid, "host": owner.host}).encode())
