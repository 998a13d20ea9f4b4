"""The journal file: appended line by line, durable before anything depends on it, read back and checked line by line.

Owns the hash chain, the cutting of a torn last line and the refusal of every other damage. Knows nothing of what events mean.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from engine.clock import Clock
from engine.errors import EngineFailure
from engine.files import NotAFile, read_regular, storage, write_all
from engine.points import reached
from engine.run.events import FIRST_HASH, LINE_BYTES, BadLine, Event, Line, dump, hash_line, parse


class JournalDamaged(EngineFailure):
    """A journal, a blob or a run.json does not hold what was recorded. `line` counts from 1; 0: another file."""

    code = "journal_damaged"

    def __init__(self, path: Path, line: int, problem: str) -> None:
        where = f"{path}, line {line}" if line else str(path)
        super().__init__(
            f"{where}: {problem}.",
            fix="Restore the file from a copy; the run cannot be shown or resumed from a record that changed.",
        )
        self.path = path
        self.line = line
        self.problem = problem


@dataclass(frozen=True)
class Journal:
    """What a journal file holds. `size` ends its last whole line; `torn` bytes of an unfinished one stand behind it."""

    lines: tuple[Line, ...]
    size: int
    torn: int
    head: str


def last_event(path: Path) -> Event | None:
    """What the last whole line says, unchecked; None when there is none or it cannot be read, which `read` tells."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            size = os.fstat(descriptor).st_size
            tail = os.pread(descriptor, 2 * LINE_BYTES, max(0, size - 2 * LINE_BYTES))
        finally:
            os.close(descriptor)
        return parse(tail.split(b"\n")[-2]).event
    except (OSError, IndexError, BadLine):
        return None


def read(path: Path) -> Journal:
    """Every whole line of the file, checked.

    Raises:
        JournalDamaged: names the first line that is wrong; also for a missing file or one without a whole line (line 1).
    """
    try:
        data = read_regular(path)
    except FileNotFoundError as error:
        raise JournalDamaged(path, 1, "there is no journal") from error
    except NotAFile as error:
        raise JournalDamaged(path, 1, f"there is no journal, {error.strerror}") from error
    except OSError as error:
        raise EngineFailure(f"cannot read {path}: {error.strerror}.", fix="Check the path and its rights.") from error
    size = data.rfind(b"\n") + 1
    if size == 0:
        raise JournalDamaged(path, 1, "is not whole")
    lines, head = [], FIRST_HASH
    found = data[: size - 1].split(b"\n")
    for number, raw in enumerate(found, start=1):
        line = _parse(path, number, raw)
        if line.seq != number:
            raise JournalDamaged(path, number, f"carries the sequence {line.seq}")
        if line.after != head:
            raise JournalDamaged(path, _changed(found, number, head), "was changed after it was written")
        lines.append(line)
        head = hash_line(raw + b"\n")
    if not _is_torn_line(data[size:], len(lines) + 1):
        raise JournalDamaged(path, len(lines) + 1, "has no end and is not the beginning of a line either")
    return Journal(tuple(lines), size, len(data) - size, head)


def _parse(path: Path, number: int, raw: bytes) -> Line:
    try:
        return parse(raw)
    except BadLine as error:
        raise JournalDamaged(path, number, str(error)) from error


def _is_torn_line(tail: bytes, number: int) -> bool:
    """True for what a write that was cut short leaves of a line, or of several: its beginning, zeros where the disk has nothing.

    A whole event with anything but nothing behind it is none: there the newline was changed.
    """
    begun, due = tail.rstrip(b"\0"), b'{"s":%d,' % number
    if len(tail) > LINE_BYTES or not begun.startswith(due[: len(begun)]):
        return False
    try:
        text = begun.decode("utf-8", "replace")
        return json.JSONDecoder().raw_decode(text)[1] == len(text)
    except (ValueError, RecursionError):
        return True


def _changed(raw: list[bytes], number: int, expected: str) -> int:
    """Which line was changed when the hash in line `number` does not fit: this one, or the one before, which it is the hash of.

    When the next line does not fit this one either, it is this one. At the end of the journal the digits tell: hashes of different
    lines have almost none in common, one that was damaged has almost all.
    """
    found = parse(raw[number - 1]).after
    differing = sum(a != b for a, b in zip(found, expected, strict=False)) + abs(len(found) - len(expected))
    if number == 1 or differing <= len(expected) // 4:
        return number
    try:
        own = number < len(raw) and parse(raw[number]).after != hash_line(raw[number - 1] + b"\n")
    except BadLine:
        own = False
    return number if own else number - 1


class JournalWriter:
    """Appends to a journal; one at a time, under the run's lock.

    After a failed append the file ends where it ended before. When even that cannot be had, or it is unknown what the disk
    holds, every later append is refused.
    """

    def __init__(self, descriptor: int, path: Path, *, journal: Journal, clock: Clock) -> None:
        self._descriptor = descriptor
        self._path = path
        self._clock = clock
        self._size = journal.size
        self._seq = len(journal.lines)
        self._head = journal.head
        self._at = journal.lines[-1].at if journal.lines else 0.0
        self._broken = False

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return self._size

    @property
    def head(self) -> str:
        """Hash of the last line."""
        return self._head

    def append(self, generation: int, *events: Event) -> tuple[Line, ...]:
        """Write the events, in one go, and have them on disk; returns their lines.

        Raises:
            StorageFull: no space; nothing of them stands in the file.
            EngineFailure: the disk failed, now or before.
        """
        if self._broken:
            raise EngineFailure(
                f"{self._path} could not be written before; nothing is recorded any more.",
                fix="Mend what keeps it from being written, then resume the run.",
            )
        lines: list[Line] = []
        raw, head = b"", self._head
        at = max(round(self._clock.now().timestamp(), 6), self._at)
        for event in events:
            line = Line(self._seq + len(lines) + 1, at, generation, event, head)
            written = _dump(line, self._path)
            head = hash_line(written)
            raw += written
            lines.append(line)
        self._write(raw)
        self._seq, self._head, self._at = self._seq + len(lines), head, at
        self._size += len(raw)
        return tuple(lines)

    def _write(self, raw: bytes) -> None:
        reached("journal.before")
        with storage(self._path):
            try:
                write_all(self._descriptor, raw)
                reached("journal.written")
                os.fsync(self._descriptor)
            except BaseException:
                self._take_back()
                raise
        reached("journal.durable")

    def _take_back(self) -> None:
        try:
            os.ftruncate(self._descriptor, self._size)
            os.fsync(self._descriptor)
        except OSError:
            self._broken = True


def begun(events: Iterable[tuple[float, Event]]) -> bytes:
    """The bytes of a new journal: these events at these times (seconds since 1970), all in generation 0."""
    raw, head = [], FIRST_HASH
    for number, (at, event) in enumerate(events, start=1):
        raw.append(dump(Line(number, at, 0, event, head)))
        head = hash_line(raw[-1])
    return b"".join(raw)


def _dump(line: Line, path: Path) -> bytes:
    try:
        return dump(line)
    except (ValueError, TypeError, RecursionError) as error:  # too long, or facts that are no JSON
        raise EngineFailure(f"{path}: an event cannot be recorded: {error}.") from error


@contextmanager
def appending(path: Path, *, journal: Journal, clock: Clock) -> Iterator[JournalWriter]:
    """Open the file for appending behind the lines of `journal`; a torn last line is cut off first.

    Raises:
        StorageFull, EngineFailure: the file cannot be opened or cut.
    """
    with storage(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        if journal.torn:
            with storage(path):
                os.ftruncate(descriptor, journal.size)
                os.fsync(descriptor)
        yield JournalWriter(descriptor, path, journal=journal, clock=clock)
    finally:
        os.close(descriptor)
