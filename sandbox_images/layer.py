"""Files as values, and the one normalised tar that they become.

A tree is a map of path (no leading slash) to `Entry`. Whatever order, owner, time or mode its sources had, the same
content gives the same bytes: sorted by path, owner 0:0, one fixed time, four modes, GNU format. Refuses devices,
pipes, and paths that leave the tree.
"""

from __future__ import annotations

import io
import posixpath
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from engine.errors import EngineFailure

EPOCH_S = 1_700_000_000
"""Modification time of every file: any constant will do, and bytecode is bound to content, not to time."""

MERGED_USR = ("bin", "sbin", "lib", "lib64")
"""Debian 12 still packs some files outside /usr although / only has links there."""


class Kind(Enum):
    DIRECTORY = auto()
    FILE = auto()
    LINK = auto()


@dataclass(frozen=True)
class Entry:
    """A directory, a file with its bytes, or a symbolic link with its target. Modes: 0755, or 0644 for plain files."""

    kind: Kind
    data: bytes = b""
    target: str = ""
    executable: bool = False
    mode: int | None = None

    @property
    def normal_mode(self) -> int:
        match self.kind:
            case Kind.DIRECTORY:
                return 0o755 if self.mode is None else self.mode
            case Kind.FILE:
                return 0o755 if self.executable else 0o644
            case Kind.LINK:
                return 0o777


Tree = dict[str, Entry]


class LayerRefused(EngineFailure):
    """A package holds something that cannot be part of an image: a device, or a path that leaves the tree."""

    code = "image_layer_refused"


def directory(mode: int = 0o755) -> Entry:
    return Entry(Kind.DIRECTORY, mode=mode)


def file(data: bytes, *, executable: bool = False) -> Entry:
    return Entry(Kind.FILE, data=data, executable=executable)


def link(target: str) -> Entry:
    return Entry(Kind.LINK, target=target)


def read_tar(data: bytes) -> Tree:
    """The files of a package's tar, below /usr where Debian 12 has them; hard links become files of their own.

    Raises:
        LayerRefused: a device, a pipe, or a path with `..`.
    """
    tree: Tree = {}
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member in archive:
            path = merged(member.name)
            if path == "":
                continue
            if member.isdir():
                tree[path] = directory()
            elif member.issym():
                tree[path] = link(member.linkname)
            elif member.isfile() or member.islnk():
                content = archive.extractfile(member)
                assert content is not None
                tree[path] = file(content.read(), executable=bool(member.mode & 0o111))
            else:
                raise LayerRefused(f"{member.name} is neither a file, a link nor a directory.")
    return tree


def merged(name: str) -> str:
    """A path of a package as it is in a merged-/usr system; empty for the root."""
    path = posixpath.normpath(name.lstrip("/"))
    if path == ".." or path.startswith("../"):
        raise LayerRefused(f"{name} leaves the tree.")
    if path.split("/")[0] in MERGED_USR:
        path = f"usr/{path}"
    return "" if path == "." else path


def resolve(tree: Mapping[str, Entry], path: str) -> str:
    """Where `path` ends after all links, or empty when it leads nowhere in the tree."""
    for _ in range(40):
        parts = path.split("/")
        for end in range(1, len(parts) + 1):
            entry = tree.get("/".join(parts[:end]))
            if entry is None:
                return ""
            if entry.kind is Kind.LINK:
                base = "/".join(["", *parts[: end - 1]])
                path = posixpath.normpath(posixpath.join(base, entry.target, *parts[end:])).lstrip("/")
                break
        else:
            return path
    return ""


def with_parents(tree: Mapping[str, Entry]) -> Tree:
    """The tree with a directory entry for every parent of every path."""
    whole = dict(tree)
    for path in tree:
        parent = posixpath.dirname(path)
        while parent:
            whole.setdefault(parent, directory())
            parent = posixpath.dirname(parent)
    return whole


def write_tar(tree: Mapping[str, Entry]) -> bytes:
    """The layer: the same tree always gives the same bytes."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path, entry in sorted(with_parents(tree).items()):
            info = tarfile.TarInfo(path)
            info.mtime = EPOCH_S
            info.mode = entry.normal_mode
            match entry.kind:
                case Kind.DIRECTORY:
                    info.type = tarfile.DIRTYPE
                case Kind.LINK:
                    info.type = tarfile.SYMTYPE
                    info.linkname = entry.target
                case Kind.FILE:
                    info.size = len(entry.data)
            archive.addfile(info, io.BytesIO(entry.data))
    return out.getvalue()
