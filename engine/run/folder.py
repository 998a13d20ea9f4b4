"""One run's folder: run.json, journal.jsonl, blobs/, state.json, logs/, output/, and how they are read and checked together."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from engine.clock import Clock
from engine.errors import EngineFailure
from engine.files import is_locked, read_regular, sha256_hex
from engine.run.blobs import INLINE_BYTES, BlobStore, text_of
from engine.run.events import READABLE, RunFinished
from engine.run.history import History, Inconsistent
from engine.run.journal import Journal, JournalDamaged, last_event, read
from engine.run.spec import RunSpec
from engine.run.status import FINAL, Status


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
        return is_locked(self.folder / "run.lock")

    def final_status(self) -> Status | None:
        """`completed` or `cancelled` when its last line says so, else None; a short look that checks nothing else."""
        end = last_event(self.journal_path)
        return end.status if isinstance(end, RunFinished) and end.status in FINAL else None

    def read(self) -> tuple[Journal, History]:
        """The journal and its fold.

        Raises:
            JournalDamaged: names the line (or file) that does not hold what was recorded.
        """
        # State first: it is written after the journal, so this way round it can never say more than an undamaged journal.
        known = read_state(self.state_path)
        journal = read(self.journal_path)
        history = History(gap_most_s=self.spec.active_s)
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

    def log_text(self, stream: Literal["stdout", "stderr"]) -> str:
        """What the program wrote, all generations; bytes that are no UTF-8 as `\\xNN`, cuts said in place, "" for nothing.

        Raises:
            EngineFailure: it cannot be read.
        """
        path = self.folder / "logs" / f"{stream}.log"
        try:
            return read_regular(path).decode("utf-8", "backslashreplace")
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise EngineFailure(
                f"cannot read {path}: {error.strerror}.", fix="Check the path and its rights."
            ) from error

    def _check_created(self, history: History) -> None:
        created = history.created
        if created is None or created.format not in READABLE:
            told = "no format" if created is None else f"format {created.format}"
            raise JournalDamaged(self.journal_path, 1, f"{told}; this version reads {sorted(READABLE)}")
        if created.run != self.run_id or created.spec != sha256_hex(self.spec.to_json()):
            raise JournalDamaged(self.folder / "run.json", 0, "is not the run.json that this journal was begun with")

    def _check_end(self, journal: Journal, known: dict[str, Any] | None) -> None:
        # The chain covers every line but the last; the projection, written after it, says what that one was.
        if known is None:
            return
        seq, head = known.get("seq"), known.get("head")
        if type(seq) is not int or seq < 1:
            return
        if seq > len(journal.lines):
            raise JournalDamaged(self.journal_path, len(journal.lines) + 1, "was recorded before and is missing")
        if head != (journal.lines[seq].after if seq < len(journal.lines) else journal.head):
            raise JournalDamaged(self.journal_path, seq, "was changed after it was written, as state.json knows it")


def read_state(path: Path) -> dict[str, Any] | None:
    """What state.json holds; None when it is absent or unusable, which loses nothing."""
    try:
        found = json.loads(read_regular(path))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and found.get("version") == 1 else None
