"""Where a project's refs stand, read from its files: a listing of 1,000 projects cannot start 1,000 processes.

Format: git's gitrepository-layout. Only reads, follows no link, reads at most 1 MiB of a file. What is not exactly a
repository as Cloche makes it (`.git` a directory, HEAD on branch main) is refused by name.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from engine.errors import EngineFailure
from engine.ids import REVISION

BRANCH: Final = "refs/heads/main"
"""Its commit is the active revision."""
NOTES: Final = "refs/notes/gate"
"""Gate reports, as notes on the commits."""

_FILE_BYTES = 1024 * 1024


class CorruptEntry(EngineFailure):
    """Something in the catalog is no repository of a package, or its objects are damaged."""

    code = "corrupt_entry"

    def __init__(self, workflow_id: str, why: str) -> None:
        super().__init__(
            f"catalog entry {workflow_id} is damaged: {why}.",
            fix=f"Run `git fsck` in catalog/workflow/{workflow_id}; restore or remove it.",
        )
        self.workflow_id = workflow_id
        self.why = why


def active_revision(project: Path) -> str:
    """The commit of branch main, 40 hex.

    Raises:
        CorruptEntry: no repository, another branch, no commit, or unreadable files.
    """
    _check_shape(project)
    head = _read(project, "HEAD")
    if head is None or head.strip() != f"ref: {BRANCH}":
        raise CorruptEntry(project.name, "HEAD is not on branch main")
    revision = ref(project, BRANCH)
    if revision is None:
        raise CorruptEntry(project.name, "branch main has no commit")
    return revision


def ref(project: Path, name: str) -> str | None:
    """The object id of a ref, None when it does not exist.

    Raises:
        CorruptEntry: it holds something else than an id.
    """
    loose = _read(project, name)
    value = loose.strip() if loose is not None else _packed(project).get(name)
    if value is not None and not REVISION.fullmatch(value):
        raise CorruptEntry(project.name, f"{name} holds no commit id")
    return value


def _check_shape(project: Path) -> None:
    for path, what in ((project, "it"), (project / ".git", ".git")):
        try:
            mode = path.lstat().st_mode
        except OSError as error:
            raise CorruptEntry(project.name, f"{what} cannot be read ({error.strerror})") from error
        if not stat.S_ISDIR(mode):
            raise CorruptEntry(project.name, f"{what} is no directory")


def _packed(project: Path) -> dict[str, str]:
    text = _read(project, "packed-refs") or ""
    lines = (line.split(" ", 1) for line in text.splitlines() if line[:1] not in ("#", "^"))
    return {parts[1]: parts[0] for parts in lines if len(parts) == 2}


def _read(project: Path, name: str) -> str | None:
    """A file below `.git` as text, None when it is absent."""
    try:
        descriptor = os.open(project / ".git" / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise CorruptEntry(project.name, f"{name} cannot be read ({error.strerror})") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise CorruptEntry(project.name, f"{name} is no file")
        data = os.read(descriptor, _FILE_BYTES)
    finally:
        os.close(descriptor)
    return data.decode("utf-8", "replace")
