"""The git tree id of a set of files, computed without git (format: git's `Documentation/gitformat-pack`, tree objects).

All files have mode 100644; a package has no executable files, links or submodules.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from engine.package.contract import SourceFile

_Tree = dict[str, "bytes | _Tree"]


def git_tree_id(files: Iterable[SourceFile]) -> str:
    """The id (40 hex) that `git write-tree` gives for these files. Paths must not contradict each other."""
    root: _Tree = {}
    for file in files:
        *folders, name = file.path.split("/")
        folder = root
        for part in folders:
            inner = folder.setdefault(part, {})
            assert isinstance(inner, dict), f"{file.path} lies inside a file"
            folder = inner
        folder[name] = _object_id("blob", file.data)
    return _tree(root).hex()


def _tree(folder: _Tree) -> bytes:
    entries = [
        (name.encode(), b"40000", _tree(node)) if isinstance(node, dict) else (name.encode(), b"100644", node)
        for name, node in folder.items()
    ]
    entries.sort(key=lambda entry: entry[0] + b"/" if entry[1] == b"40000" else entry[0])
    return _object_id("tree", b"".join(mode + b" " + name + b"\0" + digest for name, mode, digest in entries))


def _object_id(kind: str, data: bytes) -> bytes:
    return hashlib.sha1(f"{kind} {len(data)}\0".encode() + data, usedforsecurity=False).digest()
