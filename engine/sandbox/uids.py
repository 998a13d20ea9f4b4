"""One uid per live cell of the machine, for its untrusted code: RLIMIT_NPROC counts per uid across containers.

Claimed with an flock on a file in a directory that all users of the machine share, so a dead owner's claim is free at once.
While a claim is in use its file names the cell; a free file that still names one belongs to an owner who died, whose
container may live on, so the engine's labels are asked before that uid is given out again.

Whoever may use that directory can hold every lock in it. So a part of the range is root's alone, with its locks where nobody else
can open or make a file: root's cells start whatever other users do. Among each other those must get along, and are told who holds.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from engine.errors import SandboxUnavailable
from engine.sandbox import uid_holders

FIRST, COUNT = 60706, 478
"""60706–61183: used by nothing (systemd's UIDS-GIDS page and Debian policy 9.2.2), and below 65536 for mapped engines."""

DIRECTORIES = (Path("/run/lock/cloche"), Path("/tmp/cloche-uids"))

RESERVED, OF_ROOT = 128, Path("/run/cloche/uids")
"""The first so many are root's, as long as its directory can be made; only root can make anything in /run."""


class NoUidLeft(SandboxUnavailable):
    """Every uid of the range belongs to a live cell."""

    code = "no_uid_left"


class Claim:
    """A claimed uid; `release` only when the cell is proven gone, `abandon` when its container may still live."""

    def __init__(self, uid: int, descriptor: int) -> None:
        self.uid = uid
        self._descriptor = descriptor

    def release(self) -> None:
        """Free, and nobody needs to ask."""
        os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)

    def abandon(self) -> None:
        """Free once the engine shows no container with it."""
        os.close(self._descriptor)


def clear(uid: int, cell_id: str, *, directories: tuple[Path, ...] = ()) -> None:
    """Give a dead owner's uid back: its cell is proven gone. One that is held, or that names another cell, is left alone."""
    if not FIRST <= uid < FIRST + COUNT:
        return  # from a file or label that somebody else may have written
    path = lock_of(uid, directories)
    descriptor = _try(path) if path is not None and path.exists() else None
    if descriptor is not None:
        if os.pread(descriptor, 64, 0) == cell_id.encode():
            os.ftruncate(descriptor, 0)
        os.close(descriptor)


@dataclass(frozen=True)
class _Part:
    """Uids whose locks lie in one directory."""

    directory: Path
    uids: range

    def locks(self) -> Iterator[tuple[int, Path]]:
        """From somewhere inside on, so that processes seldom try the same one."""
        start = os.getpid()
        for step in range(len(self.uids)):
            uid = self.uids[(start + step) % len(self.uids)]
            yield uid, self.directory / str(uid)


def _parts(directories: tuple[Path, ...]) -> list[_Part]:
    """What this user may claim, the best first. `directories`: not the machine's, with the whole range in the first that can be used.

    Raises:
        SandboxUnavailable: there is no directory for the locks.
    """
    first = FIRST if directories else FIRST + RESERVED
    with directory_for_claims(directories or DIRECTORIES) as directory:
        shared = _Part(directory, range(first, FIRST + COUNT))
    if not directories and os.geteuid() == 0 and _is_made_for_root():
        return [_Part(OF_ROOT, range(FIRST, FIRST + RESERVED)), shared]
    return [shared]


def lock_of(uid: int, directories: tuple[Path, ...] = ()) -> Path | None:
    """The file that is locked for it; None for a uid that this user cannot claim."""
    return next((part.directory / str(uid) for part in _parts(directories) if uid in part.uids), None)


def _is_made_for_root() -> bool:
    """True when root's directory is there and nobody else's, as everything above it is."""
    try:
        OF_ROOT.mkdir(mode=0o700, parents=True, exist_ok=True)
        above = [path.lstat() for path in (OF_ROOT, *OF_ROOT.parents)]
    except OSError:
        return False
    return all(found.st_uid == 0 and stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o022 for found in above)


@contextmanager
def directory_for_claims(candidates: tuple[Path, ...] = DIRECTORIES) -> Iterator[Path]:
    """The first directory that is there or can be made, usable by every user of the machine."""
    for path in candidates:
        with suppress(OSError):
            path.mkdir(mode=0o1777)
        if _is_shared(path):
            yield path
            return
    raise SandboxUnavailable(
        f"no place for locks that all users share: {', '.join(map(str, candidates))}.",
        fix="Make one of them a directory with mode 1777.",
    )


def _is_shared(path: Path) -> bool:
    """True for a directory that can be used, of the mode it needs if it is ours; a link that somebody put there is not followed."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        if os.fstat(descriptor).st_uid == os.geteuid():
            os.fchmod(descriptor, 0o1777)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return os.access(path, os.W_OK | os.X_OK)


def claim(cell_id: str, in_use: Callable[[], frozenset[int]], *, directories: tuple[Path, ...] = ()) -> Claim:
    """A uid that no live cell has. `in_use` asks the engine for the uids in its labels, and only when it must be asked.

    That is when no file is empty and free, say after hundreds of killed owners; once per claim, whatever their number.

    Raises:
        NoUidLeft: all are taken; it says by whom. SandboxUnavailable: there is no directory for the locks. All that `in_use` raises.
    """
    parts = _parts(directories)
    doubtful: dict[int, tuple[Path, bytes]] = {}
    for uid, path in chain.from_iterable(part.locks() for part in parts):
        found = _claim(path, uid, cell_id, dead=b"")
        if isinstance(found, Claim):
            return found
        if found:
            doubtful[uid] = path, found
    known = in_use() if doubtful else frozenset()
    for uid, (path, dead) in doubtful.items():
        # Another owner may have come and died since the engine was asked: only the one that was dead before is believed.
        found = None if uid in known else _claim(path, uid, cell_id, dead=dead)
        if isinstance(found, Claim):
            return found
    files = [path for part in parts for _, path in part.locks()]
    raise NoUidLeft(
        f"all {len(files)} uids for cells are in use: {uid_holders.told(files)}.",
        fix="Wait for cells to end, or run `cloche cells reap`; what holds them and is no Cloche, its user or root can end.",
    )


def take(uid: int, cell_id: str, *, directories: tuple[Path, ...] = ()) -> Claim | None:
    """The claim of a cell that is taken over by this process; None when the uid is not that cell's any more.

    Raises:
        SandboxUnavailable: there is no directory for the locks.
    """
    path = lock_of(uid, directories)
    descriptor = None if path is None else _try(path)
    if descriptor is None:
        return None
    if os.pread(descriptor, 64, 0) != cell_id.encode():
        os.close(descriptor)
        return None
    return Claim(uid, descriptor)


def _claim(path: Path, uid: int, cell_id: str, *, dead: bytes) -> Claim | bytes | None:
    """Claim this one if its file is empty or names the cell `dead`; the cell that it names instead; None when it is held."""
    descriptor = _try(path)
    if descriptor is None:
        return None
    named = os.pread(descriptor, 64, 0)
    if named not in (b"", dead):
        os.close(descriptor)
        return named
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, cell_id.encode(), 0)
    return Claim(uid, descriptor)


def _try(path: Path) -> int | None:
    try:
        descriptor = _open(path)
    except OSError:
        return None  # somebody else's file, or no file at all: another uid will do
    found = os.fstat(descriptor)
    try:
        # a FIFO, or another name of somebody's file, put there by whoever may write the directory, is no lock and is not written
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            raise BlockingIOError
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _open(path: Path) -> int:
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        # without O_CREAT first: in a sticky directory the kernel refuses it for another user's file (protected_regular)
        return os.open(path, flags)
    except FileNotFoundError:
        descriptor = os.open(path, flags | os.O_CREAT, 0o666)
        os.fchmod(descriptor, 0o666)
        return descriptor
