"""The files that lie beside `.git` in a project: looked at without git, written one by one, never through a filter.

A published project's work tree is a copy of its active revision for people to read. The only writes are from one known tree
to the next; any other content is somebody's work and is reported, never overwritten.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from engine.catalog import git
from engine.catalog.objects import blob_id
from engine.errors import Conflict
from engine.files import fsync_directory, storage, write_atomic
from engine.package.bounds import FILE_BYTES, SCANNED_ENTRIES
from engine.package.layout import Verdict, place

Tree = Mapping[str, bytes]
"""Relative POSIX path → bytes."""

INDEX: Final = ".git/index"
"""How the index is named among differing files."""

_SHOWN = 10


class DestinationDirty(Conflict):
    """A project's work tree or index is not what its active revision holds; `paths` differ."""

    code = "destination_dirty"

    def __init__(self, workflow_id: str, paths: list[str]) -> None:
        told = ", ".join(paths[:_SHOWN]) + (f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else "")
        super().__init__(
            f"the published project {workflow_id} has changes of its own: {told}.",
            fix=f"Move them elsewhere, then run `git restore --staged --worktree .` in catalog/workflow/{workflow_id}.",
        )
        self.workflow_id = workflow_id
        self.paths = tuple(paths)


def check_clean(project: Path, tree: Tree) -> None:
    """Refuse a project whose work tree or index differs from `tree`, which its active revision holds.

    Raises:
        DestinationDirty: names what differs.
    """
    _check(project, (tree,))


def bring_forward(project: Path, *, revision: str, old: Tree, new: Tree) -> None:
    """Make the work tree and index hold `new`, the tree of `revision`; also after an earlier attempt stopped anywhere.

    Raises:
        DestinationDirty: some file is neither as in `old` nor as in `new`; nothing was written.
        StorageFull, EngineFailure: writing failed; calling again goes on.
    """
    found = _check(project, (old, new))
    for path in sorted(old.keys() - new.keys()):
        _remove(project, path)
    for path, data in sorted(new.items()):
        if found.get(path) != data:
            _write(project, path, data)
    _write_index(project, revision)


def write_new(project: Path, *, revision: str, tree: Tree) -> None:
    """Fill the work tree and index of a project that is being made."""
    for path, data in sorted(tree.items()):
        _write(project, path, data)
    _write_index(project, revision)


def _check(project: Path, allowed: tuple[Tree, ...]) -> Mapping[str, bytes | None]:
    found = dict(_entries(project, ""))
    named = set(found).union(*allowed)
    foreign = sorted(path for path in named if not _is_one_of(path, found, allowed))
    if (project / f"{INDEX}.lock").exists():
        foreign.append(f"{INDEX}.lock")
    if (project / INDEX).exists() and not any(_index_holds(project, tree) for tree in allowed):
        foreign.append(INDEX)
    if foreign:
        raise DestinationDirty(project.name, foreign)
    return found


def _is_one_of(path: str, found: Mapping[str, bytes | None], allowed: tuple[Tree, ...]) -> bool:
    if path in found:
        return found[path] is not None and any(tree.get(path) == found[path] for tree in allowed)
    return any(path not in tree for tree in allowed)


def _entries(project: Path, prefix: str) -> Iterator[tuple[str, bytes | None]]:
    """Everything below the project but `.git` and what packages ignore; None for what is no readable small file."""
    with os.scandir(project / prefix) as scan:
        entries = sorted(scan, key=lambda entry: entry.name)
    for count, entry in enumerate(entries):
        path = f"{prefix}{entry.name}"
        folder = entry.is_dir(follow_symlinks=False)
        if count > SCANNED_ENTRIES:
            yield path, None
            return
        if place(path, folder=folder).verdict is Verdict.ignore and not path.endswith("__pycache__"):
            continue
        if folder:
            yield from _entries(project, f"{path}/")
        else:
            yield path, _read(project / path)


def _read(path: Path) -> bytes | None:
    """The bytes of a regular file within the bound of a package's files."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        data = file.read(FILE_BYTES + 1)
    return data if len(data) <= FILE_BYTES else None


def _index_holds(project: Path, tree: Tree) -> bool:
    try:
        entries = git.read_index(project / INDEX)
    except git.GitFailed:
        return False
    return {(e.mode, e.stage, e.path, e.object_id) for e in entries} == {
        ("100644", 0, path, blob_id(data)) for path, data in tree.items()
    }


def _write(project: Path, path: str, data: bytes) -> None:
    """Write one file durably; what a crash leaves half-made lies inside `.git`, not among the files."""
    aside, target = _aside(project), project / path
    with storage(target):
        target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    write_atomic(aside, data, mode=0o644)
    with storage(target):
        aside.rename(target)
        fsync_directory(target.parent)


def _remove(project: Path, path: str) -> None:
    """Remove one file, and the folders that became empty."""
    with storage(project / path):
        (project / path).unlink(missing_ok=True)
        for folder in (project / path).parents:
            if folder == project or not folder.is_dir() or any(folder.iterdir()):
                break
            folder.rmdir()


def _write_index(project: Path, revision: str) -> None:
    aside = _aside(project)
    git.write_index(aside, git.objects_of(project), revision)
    with storage(project / INDEX):
        aside.rename(project / INDEX)
        fsync_directory(project / ".git")


def _aside(project: Path) -> Path:
    return project / ".git" / f"cloche-{secrets.token_hex(6)}"
