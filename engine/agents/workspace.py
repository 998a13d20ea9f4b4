"""Files below one directory, reached name by name from its descriptor: no link is followed, nothing outside can be named.

Checking a path and then opening it by name would leave a gap in which a link can be put there; a descriptor leaves none.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

WALKED = 200_000
"""Entries that one walk looks at, at most."""

DEPTH = 64


class TooMany(Exception):
    """A walk met more entries than it looks at."""


@dataclass(frozen=True)
class Entry:
    """One name in a folder. `size` is in bytes, 0 for anything but a file."""

    name: str
    kind: Literal["file", "directory", "other"]
    size: int


def split(path: str) -> tuple[str, ...]:
    """The names of a path relative to the workspace; () is the workspace itself.

    Raises:
        ValueError: it is empty, absolute, climbs, or is no text that a path can be.
    """
    if path == "" or "\0" in path or path.startswith("/"):
        raise ValueError(f"{path!r} is no path relative to the workspace")
    parts = PurePosixPath(path).parts
    if ".." in parts:
        raise ValueError(f"{path!r} leaves the workspace")
    return parts


@contextmanager
def folder(top: Path, parts: tuple[str, ...]) -> Iterator[int]:
    """A descriptor of the folder `parts` below `top`.

    Raises:
        FileNotFoundError, NotADirectoryError, PermissionError (also for a link), OSError: it cannot be opened; the message
            names the path as the program gave it.
    """
    with _translated("."):
        current = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for i, part in enumerate(parts):
            with _translated("/".join(parts[: i + 1]), at=(current, part)):
                inner = os.open(part, _FOLDER, dir_fd=current)
            os.close(current)
            current = inner
        yield current
    finally:
        os.close(current)


@contextmanager
def regular_file(top: Path, parts: tuple[str, ...]) -> Iterator[int]:
    """A descriptor of the regular file `parts` below `top`.

    Raises:
        FileNotFoundError, IsADirectoryError, PermissionError (also for a link or a special file), NotADirectoryError, OSError.
    """
    if not parts:
        raise IsADirectoryError(". is a folder")
    shown = "/".join(parts)
    with folder(top, parts[:-1]) as parent:
        with _translated(shown, at=(parent, parts[-1])):
            descriptor = os.open(parts[-1], _FILE, dir_fd=parent)
        try:
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISDIR(mode):
                raise IsADirectoryError(f"{shown} is a folder")
            if not stat.S_ISREG(mode):
                raise PermissionError(f"{shown} is no regular file")
            yield descriptor
        finally:
            os.close(descriptor)


def entries(descriptor: int) -> list[Entry]:
    """What a folder holds, ordered by name; names that are no UTF-8 are left out.

    Raises:
        TooMany: more than `WALKED`.
    """
    found: list[Entry] = []
    with os.scandir(descriptor) as listing:
        for count, item in enumerate(listing):
            if count >= WALKED:
                raise TooMany
            if not _is_text(item.name):
                continue
            if item.is_symlink():
                found.append(Entry(item.name, "other", 0))
            elif item.is_dir(follow_symlinks=False):
                found.append(Entry(item.name, "directory", 0))
            elif item.is_file(follow_symlinks=False):
                found.append(Entry(item.name, "file", _size(item)))
            else:
                found.append(Entry(item.name, "other", 0))
    return sorted(found, key=lambda entry: entry.name)


def _size(item: os.DirEntry[str]) -> int:
    try:
        return item.stat(follow_symlinks=False).st_size
    except FileNotFoundError:  # gone since it was listed
        return 0


def files_below(top: Path, parts: tuple[str, ...]) -> list[str]:
    """Paths of all regular files below a folder, relative to `top`, sorted. Links and unreadable folders are passed by.

    Raises:
        TooMany: more than `WALKED` entries.
        FileNotFoundError, NotADirectoryError, PermissionError, OSError: the folder itself cannot be read.
    """
    found: list[str] = []
    seen = 0
    waiting = [parts]
    while waiting:
        here = waiting.pop()
        try:
            with folder(top, here) as descriptor:
                listed = entries(descriptor)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            if here == parts:
                raise
            continue  # changed while it was walked, or not ours to read
        seen += len(listed)
        if seen > WALKED:
            raise TooMany
        found += ["/".join((*here, entry.name)) for entry in listed if entry.kind == "file"]
        if len(here) < DEPTH:
            waiting += [(*here, entry.name) for entry in listed if entry.kind == "directory"]
    return sorted(found)


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


@contextmanager
def _translated(shown: str, *, at: tuple[int, str] | None = None) -> Iterator[None]:
    """The system's errors with the path as the program knows it, and a link called a link."""
    try:
        yield
    except OSError as error:
        if at is not None and error.errno in (errno.ELOOP, errno.ENOTDIR) and _is_link(*at):
            raise PermissionError(f"{shown} is a link; links are not followed") from error
        match error.errno:
            case errno.ENOENT:
                raise FileNotFoundError(f"{shown} does not exist in the workspace") from error
            case errno.ENOTDIR:
                raise NotADirectoryError(f"{shown} is no folder") from error
            case errno.EACCES | errno.EPERM:
                raise PermissionError(f"{shown} may not be read") from error
            case errno.ENXIO:
                raise PermissionError(f"{shown} is no regular file") from error
            case errno.ENAMETOOLONG:
                raise ValueError(f"{shown[:200]} is too long for a path") from error
        raise OSError(f"{shown}: {error.strerror}") from error


def _is_link(parent: int, name: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
    except OSError:
        return False
