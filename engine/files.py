"""Durable files, locks and digests: write aside, fsync, rename, fsync of the directory.

Every write that matters goes through here, so that a crash leaves the old or the new content and never half of it.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from engine.errors import Conflict, EngineFailure, StorageFull
from engine.points import reached


def sha256_hex(data: bytes) -> str:
    """SHA-256 of `data`, 64 hex digits."""
    return hashlib.sha256(data).hexdigest()


@contextmanager
def storage(path: Path) -> Iterator[None]:
    """Translate what a file system says while writing `path`.

    Raises:
        StorageFull: no space, no inode or the quota is used up.
        EngineFailure: any other OSError, with the path.
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFull(f"no space left to write {path}.", fix="Free disk space, then run it again.") from error
        raise EngineFailure(f"cannot write {path}: {error.strerror}.", fix="Check the path and its rights.") from error


class NotAFile(OSError):
    """A link, directory, FIFO, socket or device stands where a file belongs; opening it might wait for ever or lead elsewhere."""


def read_regular(path: Path) -> bytes:
    """The content of a regular file; whatever else has its name is refused without waiting for it.

    Raises:
        NotAFile: it is a link or no regular file.
        OSError: it cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise NotAFile(error.errno, "it is a link or a socket", str(path)) from error
        raise
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise NotAFile(errno.EINVAL, "it is no regular file", str(path))
        parts = [os.read(descriptor, found.st_size + 1)]
        while parts[-1]:
            parts.append(os.read(descriptor, 1024 * 1024))
        return b"".join(parts)
    finally:
        os.close(descriptor)


def fsync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte, however often the kernel takes only a part."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def write_atomic(path: Path, data: bytes, *, mode: int = 0o600, durable: bool = True) -> None:
    """Replace `path` by `data` in one step; after a crash it holds the old or the new bytes.

    `durable=False` leaves the fsyncs out, for projections that can be rebuilt.

    Raises:
        StorageFull, EngineFailure: as `storage`; the old content stays.
    """
    aside = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    with storage(path):
        try:
            descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
            try:
                os.fchmod(descriptor, mode)
                write_all(descriptor, data)
                if durable:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
            reached("file.written")
            aside.rename(path)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise
        reached("file.renamed")
        if durable:
            fsync_directory(path.parent)
            reached("file.durable")


def make_directory(path: Path, *, durable: bool = True) -> Path:
    """Create a directory and its parents, for their owner alone; an existing one is left as it is.

    `durable=False` leaves the fsyncs out, for what does not outlive a boot.
    """
    with storage(path):
        # Path.mkdir(parents=True) would give the parents the default mode
        for folder in (*reversed(path.parents), path):
            if not folder.is_dir():
                folder.mkdir(mode=0o700, exist_ok=True)
                if durable:
                    fsync_directory(folder.parent)
    return path


def remove_tree(path: Path) -> None:
    """Remove a tree, also one whose directories were made unwritable; never follows links.

    What is absent is fine, also what somebody else removes meanwhile.
    """

    def unlock(function: object, name: str, _error: object) -> None:
        with suppress(FileNotFoundError):
            os.chmod(Path(name).parent, 0o700)  # noqa: PTH101
            if os.path.isdir(name) and not os.path.islink(name):  # noqa: PTH112, PTH114
                os.chmod(name, 0o700)  # noqa: PTH101
                shutil.rmtree(name)
            else:
                os.unlink(name)  # noqa: PTH108

    if os.path.lexists(path):
        shutil.rmtree(path, onerror=unlock)


class Locked(Conflict):
    """Another process holds the lock."""

    code = "locked"


@contextmanager
def lock(path: Path, *, wait: bool = True, what: str = "") -> Iterator[int]:
    """Hold an exclusive flock on `path` (created if absent, never removed) for the block; yields its descriptor.

    The kernel frees it when the process dies, so a held lock means a living owner.

    Raises:
        Locked: `wait` is false and another process holds it.
    """
    with storage(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError as error:
            raise Locked(f"{what or path.name} is in use by another process.", fix="Wait for it to end.") from error
        yield descriptor
    finally:
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """True when some process holds the lock on `path`; an absent file is free. Writes nothing.

    Raises:
        EngineFailure: it cannot be opened.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise EngineFailure(f"cannot read {path}: {error.strerror}.", fix="Check the path and its rights.") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
