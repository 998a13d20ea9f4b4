"""Runs on disk: `sessions/<session>/workflows/<run_id>/` with run.json, journal.jsonl, blobs/, state.json, logs/, output/.

Owns creating, finding and reading runs, and the one claim under which a run is written (`claimed`).
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cloche_guest import codec

from engine.clock import Clock
from engine.errors import Conflict, EngineFailure, NotFound, UsageError
from engine.files import (
    Locked,
    fsync_directory,
    is_locked,
    lock,
    make_directory,
    remove_tree,
    sha256_hex,
    storage,
    write_all,
    write_atomic,
)
from engine.ids import RUN_ID, SESSION_ID
from engine.run.blobs import INLINE_BYTES, BlobStore, text_of
from engine.run.events import FIRST_HASH, FORMAT, Event, Line, RunCreated, RunStarted
from engine.run.history import History, Inconsistent
from engine.run.journal import Journal, JournalDamaged, JournalWriter, appending, read
from engine.run.spec import RunSpec, parse_spec

_CLAIM_TRIES = 10
_CLAIM_PAUSE_S = 0.02


class RunOwned(Conflict):
    """Another process executes this run; it is named when it left its name."""

    code = "run_owned"


class RunNotFound(NotFound):
    """No run has this id."""

    code = "run_not_found"


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


@dataclass(frozen=True)
class Stored:
    """A value as an event holds it: encoded in the line, or the name of its blob."""

    encoded: Any = None
    blob: str = ""

    def named(self, inline: str, blob: str) -> dict[str, Any]:
        """As fields of an event."""
        return {blob: self.blob} if self.blob else {inline: self.encoded}


@dataclass(frozen=True)
class Run:
    """One run's folder and fixed part. Reading is always allowed; writing goes through `claimed`."""

    folder: Path
    spec: RunSpec
    clock: Clock

    @property
    def run_id(self) -> str:
        return self.spec.run_id

    @property
    def journal_path(self) -> Path:
        return self.folder / "journal.jsonl"

    @property
    def state_path(self) -> Path:
        return self.folder / "state.json"

    @property
    def cancel_path(self) -> Path:
        return self.folder / "cancel"

    @property
    def blobs(self) -> BlobStore:
        return BlobStore(self.folder / "blobs")

    def is_owned(self) -> bool:
        """True while a living process executes it."""
        path = self.folder / "run.lock"
        return path.exists() and is_locked(path)

    def read(self) -> tuple[Journal, History]:
        """The journal and its fold.

        Raises:
            JournalDamaged: names the line (or file) that does not hold what was recorded.
        """
        # State first: it is written after the journal, so this way round it can never say more than an undamaged journal.
        known = read_state(self.state_path)
        journal = read(self.journal_path)
        history = History()
        for number, line in enumerate(journal.lines, start=1):
            try:
                history.apply(line)
            except Inconsistent as error:
                raise JournalDamaged(self.journal_path, number, str(error)) from error
        self._check_created(history)
        self._check_end(journal, known)
        return journal, history

    def keep(self, encoded: Any, *, raw: bytes | None = None) -> Stored:
        """An encoded value for an event; a large one is in its blob, durable, when this returns. `raw`: its text, if known.

        Raises:
            StorageFull, EngineFailure: the blob could not be written.
        """
        raw = text_of(encoded) if raw is None else raw
        return Stored(encoded) if len(raw) <= INLINE_BYTES else Stored(blob=self.blobs.put(raw))

    def value(self, stored: Any, blob: str) -> Any:
        """The encoded value of an event's two fields.

        Raises:
            JournalDamaged: the blob is missing or was changed.
        """
        return self.blobs.get(blob) if blob else stored

    def _check_created(self, history: History) -> None:
        created = history.created
        if created is None or created.format != FORMAT:
            told = "no format" if created is None else f"format {created.format}"
            raise JournalDamaged(self.journal_path, 1, f"{told}; this version reads {FORMAT}")
        if created.run != self.run_id or created.spec != sha256_hex(self.spec.to_json()):
            raise JournalDamaged(self.folder / "run.json", 0, "is not the run.json that this journal was begun with")

    def _check_end(self, journal: Journal, known: dict[str, Any] | None) -> None:
        # The chain covers every line but the last; the projection, written after it, says what that one was.
        if known is None:
            return
        seq, head = known.get("seq"), known.get("head")
        if type(seq) is int and seq > len(journal.lines):
            raise JournalDamaged(self.journal_path, len(journal.lines) + 1, "was recorded before and is missing")
        if seq == len(journal.lines) and head != journal.head:
            raise JournalDamaged(self.journal_path, len(journal.lines), "was changed after it was written")


def read_state(path: Path) -> dict[str, Any] | None:
    """What state.json holds; None when it is absent or unusable, which loses nothing."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("version") == 1 else None


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

    def record(self, *events: Event) -> tuple[Line, ...]:
        """Have the events on disk and in `history`, in the current generation (`run.started` opens the next one).

        Raises:
            StorageFull, EngineFailure: nothing of them was recorded.
        """
        generation = self.history.generation + isinstance(events[0], RunStarted)
        # Before it is written: an event that cannot stand there would make the whole journal unreadable.
        self.history.check(Line(self.history.seq + 1, 0.0, generation, events[0], ""))
        lines = self._writer.append(generation, *events)
        for line in lines:
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
        journal, history = run.read()
        _write_owner(descriptor, run.folder / "run.lock")
        with appending(run.journal_path, journal=journal, clock=run.clock) as writer:
            yield Recorder(run, writer, history, journal.torn)


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
        found = json.loads((run.folder / "run.lock").read_bytes())
        return Owner(int(found["pid"]), str(found["host"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write_owner(descriptor: int, path: Path) -> None:
    owner = this_process()
    with storage(path):
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        write_all(descriptor, codec.text({"pid": owner.pid, "host": owner.host}).encode())


class RunStore:
    """All runs below `home`."""

    def __init__(self, home: Path, *, clock: Clock) -> None:
        self._sessions = home / "sessions"
        self._clock = clock

    def create(self, spec: RunSpec) -> Run:
        """A new run: its folder appears whole, with run.json and the first event.

        Raises:
            Conflict: a run of this id exists.
            UsageError: the session or run id has not the form of one.
            StorageFull, EngineFailure: it could not be written; nothing is left.
        """
        if not SESSION_ID.fullmatch(spec.session) or not RUN_ID.fullmatch(spec.run_id):
            raise UsageError(f"session {spec.session!r} or run {spec.run_id!r} has not the form of an id.")
        parent = make_directory(self._sessions / spec.session / "workflows")
        folder, aside = parent / spec.run_id, parent / f".new-{spec.run_id}"
        if folder.exists():
            raise Conflict(f"run {spec.run_id} exists already.", fix="Run it again under a new id.")
        try:
            self._fill(aside, spec)
            with storage(folder):
                aside.rename(folder)
                fsync_directory(parent)
        except BaseException:
            remove_tree(aside)
            raise
        return Run(folder, spec, self._clock)

    def _fill(self, aside: Path, spec: RunSpec) -> None:
        remove_tree(aside)
        make_directory(aside)
        raw = spec.to_json()
        write_atomic(aside / "run.json", raw)
        path = aside / "journal.jsonl"
        with appending(path, journal=Journal((), 0, 0, FIRST_HASH), clock=self._clock) as writer:
            writer.append(0, RunCreated(format=FORMAT, run=spec.run_id, spec=sha256_hex(raw)))
        with storage(aside):
            fsync_directory(aside)

    def open(self, run_id: str) -> Run:
        """The run with this id, in whatever session.

        Raises:
            RunNotFound: there is none. JournalDamaged: its run.json is no run.json.
        """
        found = self._find(run_id) if RUN_ID.fullmatch(run_id) else None
        if found is None:
            raise RunNotFound(f"there is no run {run_id}.", fix="`cloche runs list` shows the runs there are.")
        return self._read(found)

    def list(self, *, session: str = "") -> tuple[list[Run], list[EngineFailure]]:
        """All runs, newest first, of one session or of all; and what was wrong with those that cannot be read."""
        runs, broken = [], []
        for folder in self._folders(session):
            try:
                runs.append(self._read(folder))
            except EngineFailure as error:
                broken.append(error)
        return sorted(runs, key=lambda run: run.run_id, reverse=True), broken

    def _find(self, run_id: str) -> Path | None:
        return next((path for path in self._sessions.glob(f"*/workflows/{run_id}") if path.is_dir()), None)

    def _folders(self, session: str) -> Iterator[Path]:
        for folder in self._sessions.glob("*/workflows/*"):
            if RUN_ID.fullmatch(folder.name) and (not session or folder.parent.parent.name == session):
                yield folder

    def _read(self, folder: Path) -> Run:
        path = folder / "run.json"
        try:
            raw = path.read_bytes()
        except OSError as error:
            raise JournalDamaged(path, 0, f"cannot be read ({error.strerror})") from error
        spec = parse_spec(raw, path=path)
        if spec.run_id != folder.name:
            raise JournalDamaged(path, 0, f"belongs to the run {spec.run_id}")
        return Run(folder, spec, self._clock)
