"""What git says, as plain values: commits, tree and index entries, and how their text is read. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

_TREE = re.compile(rb"^tree ([0-9a-f]{40})$", re.MULTILINE)
_COMMITTER = re.compile(rb"^committer .* (\d{1,18}) [+-]\d{4}$", re.MULTILINE)


@dataclass(frozen=True)
class Commit:
    """What a commit object says. `committed_at` is in seconds since the epoch."""

    revision: str
    tree_id: str
    parents: tuple[str, ...]
    committed_at: int
    subject: str


@dataclass(frozen=True)
class TreeEntry:
    """One file of a tree: octal mode, object type and id, size in bytes (0 for what is no blob), path."""

    mode: str
    kind: str
    object_id: str
    size: int
    path: str


@dataclass(frozen=True)
class IndexEntry:
    """One line of an index: octal mode, blob id, merge stage (0 when merged), path."""

    mode: str
    object_id: str
    stage: int
    path: str


@dataclass(frozen=True)
class RefUpdate:
    """One line of a ref transaction: `name` must be at `old` (`ZERO`: absent) and becomes `new` (`ZERO`: deleted)."""

    name: str
    new: str
    old: str


def blob_id(data: bytes) -> str:
    """The id git gives a file with these bytes."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def parse_commit(data: bytes) -> tuple[str, int]:
    """Tree id and time of commit (seconds since the epoch) of a raw commit object.

    Raises:
        ValueError: `data` is no commit.
    """
    header = data.partition(b"\n\n")[0]
    tree_id, committer = _TREE.search(header), _COMMITTER.search(header)
    if tree_id is None or committer is None:
        raise ValueError("no commit object")
    return tree_id[1].decode("ascii"), int(committer[1])


def moment(seconds: int) -> datetime:
    """A time of commit as aware UTC; one that no calendar holds (anybody can write one) as the epoch."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return datetime.fromtimestamp(0, UTC)


def commit_of(record: bytes) -> Commit:
    """A record of `git log` in the format that `engine.catalog.git` asks for."""
    revision, tree_id, parents, seconds, subject = record.decode("utf-8", "replace").split("\n", 4)
    return Commit(revision, tree_id, tuple(parents.split()), int(seconds), subject)


def tree_entry_of(record: bytes) -> TreeEntry:
    """A record of `git ls-tree -l -z`."""
    fields, _, path = record.partition(b"\t")
    mode, kind, object_id, size = fields.decode("ascii").split()
    return TreeEntry(mode, kind, object_id, 0 if size == "-" else int(size), path.decode("utf-8", "surrogateescape"))


def index_entry_of(record: bytes) -> IndexEntry:
    """A record of `git ls-files --stage -z`."""
    fields, _, path = record.partition(b"\t")
    mode, object_id, stage = fields.decode("ascii").split()
    return IndexEntry(mode, object_id, int(stage), path.decode("utf-8", "surrogateescape"))


def split(out: bytes) -> list[bytes]:
    """Records that each end in NUL."""
    return out.split(b"\0")[:-1]


def batch_of(out: bytes, names: Sequence[str]) -> Iterator[bytes | None]:
    """Read the answers of `cat-file --batch`: `<id> <type> <size>`, the bytes, a line break; or `<name> missing`."""
    at = 0
    for name in names:
        end = out.index(b"\n", at)
        header, at = out[at:end], end + 1
        if header == f"{name} missing".encode():
            yield None
            continue
        size = int(header.rsplit(b" ", 1)[1])
        yield out[at : at + size]
        at += size + 1
