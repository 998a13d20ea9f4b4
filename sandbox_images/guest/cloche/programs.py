"""File tools over the run's workspace: `from cloche.programs import read, grep, glob, list` (an alias is fine).

Every one is a recorded call, executed on the host with the permission `workspace.read`. Paths are relative to the workspace, with
`/`; absolute ones, `..` and links are refused. Only regular files are read. Results are sorted, so that the same workspace gives
the same answer, and bounded: `more` says that there was more.
"""

from __future__ import annotations

import builtins
from pathlib import PurePath
from typing import Literal, TypedDict, cast

from cloche._call import call

__all__ = ["glob", "grep", "list", "read"]


class Page(TypedDict):
    """A piece of a file. `next` is the offset to go on at, None at the end; `size` is the whole file's, in bytes."""

    text: str
    next: int | None
    size: int


class Entry(TypedDict):
    """One entry of a folder. `size` is in bytes, 0 for anything but a file."""

    name: str
    kind: Literal["file", "directory", "other"]
    size: int


class Entries(TypedDict):
    """Entries ordered by name; `more` says that some were left out."""

    items: builtins.list[Entry]
    more: bool


class Paths(TypedDict):
    """Paths relative to the workspace, ordered; `more` says that some were left out."""

    items: builtins.list[str]
    more: bool


class Match(TypedDict):
    """A line that matched. `line` counts from 1; `text` is without its line end."""

    path: str
    line: int
    text: str


class Matches(TypedDict):
    """Matches ordered by path, then line; `more` says that some were left out."""

    items: builtins.list[Match]
    more: bool


def read(path: str | PurePath, *, offset: int = 0, limit: int = 262144) -> Page:
    """Up to `limit` bytes of a file from the byte `offset` on, as text.

    The piece ends behind its last line end, so that pages never cut a line; a line longer than `limit` is cut between two
    characters. UTF-8 is decoded; a byte that does not decode is written as `\\xNN`. Reading on at `next` until it is None gives
    every byte once. `limit` is at most 1,048,576.

    Raises:
        CallError: FileNotFoundError, IsADirectoryError, PermissionError, or ValueError for a path or a number out of bounds.
    """
    return cast(Page, call(read, {"path": str(path), "offset": offset, "limit": limit}))


def grep(pattern: str, *, path: str | PurePath = ".", max_matches: int = 500) -> Matches:
    """Lines that match the regular expression `pattern` (RE2: linear time, no look-around, no back-references) anywhere.

    `path` is a file, or a folder that is searched with everything below it. At most `max_matches` (up to 10,000) are given.

    Raises:
        CallError: as `read`, and ValueError for a pattern that is none.
    """
    return cast(Matches, call(grep, {"pattern": pattern, "path": str(path), "max_matches": max_matches}))


def glob(pattern: str) -> Paths:
    """Regular files whose path relative to the workspace matches `pattern`, e.g. `logs/**/*.log`; at most 10,000.

    `*`, `?` and `[…]` match within one name, hidden ones included; `**` as a whole name stands for any number of folders.

    Raises:
        CallError: ValueError for a pattern that is absolute or climbs.
    """
    return cast(Paths, call(glob, {"pattern": pattern}))


def list(path: str | PurePath = ".") -> Entries:
    """What a folder of the workspace holds; at most 10,000 entries.

    Raises:
        CallError: FileNotFoundError, NotADirectoryError, or ValueError for a path that is absolute or climbs.
    """
    return cast(Entries, call(list, {"path": str(path)}))
