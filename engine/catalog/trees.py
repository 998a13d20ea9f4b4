"""The files of a published revision, read object by object and hashed again."""

from __future__ import annotations

from pathlib import Path

from engine.catalog import git
from engine.catalog.objects import TreeEntry
from engine.catalog.refs import CorruptEntry
from engine.package.bounds import FILES, TREE_BYTES
from engine.package.contract import SourceFile
from engine.package.tree_id import git_tree_id

SAFE_BYTES = 4 * TREE_BYTES
SAFE_FILES = 4 * FILES
"""What is read of a revision at most: above the bounds of new packages, since rules may tighten after a publication."""


def tree_of(project: Path, revision: str) -> dict[str, bytes]:
    """Path → bytes of every file of a revision.

    Raises:
        CorruptEntry: objects are missing or damaged, or the tree holds links, programs, submodules or too much.
    """
    try:
        wanted = git.commit(git.objects_of(project), revision).tree_id
        entries = checked_entries(project, revision)
        contents = git.blobs([git.objects_of(project)], [entry.object_id for entry in entries])
    except git.GitFailed as error:
        raise CorruptEntry(project.name, f"revision {revision} cannot be read ({last_line(error)})") from error
    files = [SourceFile(entry.path, data) for entry, data in zip(entries, contents, strict=True) if data is not None]
    if git_tree_id(files) != wanted:
        raise CorruptEntry(project.name, f"revision {revision} does not hold the bytes its tree id names")
    return {file.path: file.data for file in files}


def checked_entries(project: Path, revision: str) -> list[TreeEntry]:
    """The entries of a revision's tree, all of them plain files and within safe bounds.

    Raises:
        CorruptEntry: one is a link, program or submodule, or there is too much.
        GitFailed: objects are missing or damaged.
    """
    entries = git.tree(git.objects_of(project), revision)
    names = {entry.path for entry in entries}
    odd = next((entry.path for entry in entries if not _is_plain(entry, names)), None)
    if odd is not None:
        raise CorruptEntry(project.name, f"{odd!a} in revision {revision} is no plain file")
    if len(entries) > SAFE_FILES or sum(entry.size for entry in entries) > SAFE_BYTES:
        raise CorruptEntry(project.name, f"revision {revision} is larger than any package may be")
    return entries


def _is_plain(entry: TreeEntry, names: set[str]) -> bool:
    """True for a file that can lie in a folder: a hostile tree can hold `..`, `.git`, or a file and a folder of one name."""
    parts = entry.path.split("/")
    named = entry.path.isprintable() and not any(part.lower() in ("", ".", "..", ".git") for part in parts)
    return entry.mode == "100644" and named and not any("/".join(parts[:n]) in names for n in range(1, len(parts)))


def last_line(error: git.GitFailed) -> str:
    """The last thing git said."""
    return (error.stderr.strip().splitlines() or [f"exit {error.status}"])[-1]
