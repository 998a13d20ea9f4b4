"""All runs of a home, in `sessions/<session>/workflows/<run_id>/`: made whole, found by id, listed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from engine.clock import Clock
from engine.errors import Conflict, EngineFailure, NotFound, UsageError
from engine.files import (
    fsync_directory,
    make_directory,
    read_regular,
    remove_tree,
    sha256_hex,
    storage,
    write_atomic,
)
from engine.ids import RUN_ID, SESSION_ID
from engine.points import reached
from engine.run.blobs import BlobStore
from engine.run.events import FORMAT, RunCreated
from engine.run.folder import Run
from engine.run.journal import JournalDamaged, begun
from engine.run.spec import RunSpec, parse_spec

if TYPE_CHECKING:
    from engine.run.fork import Inheritance

HALF_MADE_S = 3600
"""A folder that is being filled may be somebody's for so long; making one takes milliseconds."""


class RunNotFound(NotFound):
    """No run has this id."""

    code = "run_not_found"


class RunStore:
    """All runs below `home`."""

    def __init__(self, home: Path, *, clock: Clock) -> None:
        self._sessions = home / "sessions"
        self._clock = clock

    def create(self, spec: RunSpec, *, inherited: Inheritance | None = None) -> Run:
        """A new run: its folder appears whole, with run.json, the first event, and what a fork inherits.

        Raises:
            Conflict: a run of this id exists.
            UsageError: the session or run id has not the form of one.
            StorageFull, EngineFailure: it could not be written; nothing is left.
        """
        if not SESSION_ID.fullmatch(spec.session) or not RUN_ID.fullmatch(spec.run_id):
            raise UsageError(f"session {spec.session!r} or run {spec.run_id!r} has not the form of an id.")
        parent = make_directory(self._sessions / spec.session / "workflows")
        self._remove_half_made(parent)
        folder, aside = parent / spec.run_id, parent / f".new-{spec.run_id}"
        if folder.exists():
            raise Conflict(f"run {spec.run_id} exists already.", fix="Run it again under a new id.")
        try:
            self._fill(aside, spec, inherited)
            reached("run.filled")
            with storage(folder):
                aside.rename(folder)
                reached("run.renamed")
                fsync_directory(parent)
        except BaseException:
            remove_tree(aside)
            raise
        reached("run.created")
        return Run(folder, spec, self._clock)

    def _remove_half_made(self, parent: Path) -> None:
        """Remove folders of runs whose creation was killed long ago; nobody was told of such a run."""
        before = self._clock.now().timestamp() - HALF_MADE_S
        for path in parent.glob(".new-*"):
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < before:
                    remove_tree(path)

    def _fill(self, aside: Path, spec: RunSpec, inherited: Inheritance | None) -> None:
        remove_tree(aside)
        make_directory(aside)
        raw = spec.to_json()
        write_atomic(aside / "run.json", raw)
        created = RunCreated(format=FORMAT, run=spec.run_id, spec=sha256_hex(raw))
        first = (round(self._clock.now().timestamp(), 6), created)
        if inherited is not None:
            BlobStore(aside / "blobs").take(inherited.blobs)
        write_atomic(aside / "journal.jsonl", begun([first, *(inherited.events if inherited else ())]))

    def open(self, run_id: str) -> Run:
        """The run with this id, in whatever session.

        Raises:
            RunNotFound: there is none. JournalDamaged: its run.json is no run.json.
        """
        found = self._find(run_id) if RUN_ID.fullmatch(run_id) else None
        if found is None:
            raise RunNotFound(f"there is no run {run_id}.", fix="`cloche runs list` shows the runs there are.")
        return self._read(found)

    def newest(self) -> Run:
        """The run that was created last and can be read.

        Raises:
            NotFound: there is none yet.
        """
        runs, _ = self.list()
        if not runs:
            raise NotFound("there is no run yet.", fix="`cloche workflows run ID` makes one.")
        return runs[0]

    def list(self, *, session: str = "") -> tuple[list[Run], list[EngineFailure]]:
        """All runs, newest first, of one session or of all; and what was wrong with those that cannot be read."""
        runs, broken = [], []
        for folder in self._folders(session):
            try:
                runs.append(self._read(folder))
            except EngineFailure as error:
                broken.append(error)
        return sorted(runs, key=lambda run: (run.spec.created_at, run.run_id), reverse=True), broken

    def _find(self, run_id: str) -> Path | None:
        return next((path for path in self._sessions.glob(f"*/workflows/{run_id}") if path.is_dir()), None)

    def _folders(self, session: str) -> Iterator[Path]:
        for folder in self._sessions.glob("*/workflows/*"):
            if RUN_ID.fullmatch(folder.name) and (not session or folder.parent.parent.name == session):
                yield folder

    def _read(self, folder: Path) -> Run:
        path = folder / "run.json"
        try:
            raw = read_regular(path)
        except OSError as error:
            raise JournalDamaged(path, 0, f"cannot be read ({error.strerror})") from error
        spec = parse_spec(raw, path=path)
        if spec.run_id != folder.name:
            raise JournalDamaged(path, 0, f"belongs to the run {spec.run_id}")
        return Run(folder, spec, self._clock)
