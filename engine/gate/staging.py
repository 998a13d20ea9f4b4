"""Making the objects of a publication where nobody sees them: in a staging repository, or in a project not yet in place.

One `git fast-import` makes blobs, the commit and the note on it; the commit's tree must be the one that the gate passed.
What was made reaches a project as one pack, its index last, and is unreachable there until refs move.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from engine.catalog import git
from engine.catalog.refs import BRANCH, NOTES
from engine.errors import EngineFailure
from engine.files import fsync_directory, storage
from engine.package.contract import GatedPackage, SourceFile


class TreeChanged(EngineFailure):
    """Git made another tree of the files than the one that was tested. Nothing was published."""

    code = "tree_changed"


@dataclass(frozen=True)
class Parents:
    """What a publication follows: commits of the branch and of the notes, None where there is none yet."""

    revision: str | None
    note: str | None


@dataclass(frozen=True)
class Made:
    """The new commit and the new notes commit, 40 hex."""

    revision: str
    note: str


def make_objects(git_dir: Path, gated: GatedPackage, *, parents: Parents, at: datetime, subject: str) -> Made:
    """Make commit and note of a gated package in a bare repository, or the `.git` of a new project.

    Raises:
        TreeChanged: the commit does not hold the tree that was gated.
        GitFailed, StorageFull: git could not.
    """
    stream = b"".join(_stream(gated, parents=parents, seconds=int(at.timestamp()), subject=subject))
    git.fast_import(git_dir, stream)
    revision, note = git.ref(git_dir, BRANCH), git.ref(git_dir, NOTES)
    assert revision is not None, "fast-import said it was done"
    assert note is not None, "fast-import said it was done"
    tree_id = git.commit(git_dir / "objects", revision).tree_id
    if tree_id != gated.tree_id:
        raise TreeChanged(f"{gated.workflow_id}: git made tree {tree_id}, but {gated.tree_id} was tested.")
    return Made(revision, note)


def move_pack(staging: Path, objects: Path) -> list[Path]:
    """Bring the staging repository's pack into an object directory; gives the files that are new there."""
    source, target = staging / "objects" / "pack", objects / "pack"
    moved: list[Path] = []
    with storage(target):
        target.mkdir(exist_ok=True)
        # the .idx makes a pack visible, so it comes last
        for path in sorted(source.iterdir(), key=lambda path: path.suffix == ".idx"):
            if not (target / path.name).exists():
                path.rename(target / path.name)
                moved.append(target / path.name)
        fsync_directory(target)
    return moved


def _stream(gated: GatedPackage, *, parents: Parents, seconds: int, subject: str) -> Iterator[bytes]:
    """The fast-import stream (git-fast-import, INPUT FORMAT)."""
    files = gated.package.candidate.files
    committer = f"committer {git.AUTHOR} {seconds} +0000\n".encode()
    commit_mark, note_mark = len(files) + 1, len(files) + 2
    for mark, file in enumerate(files, start=1):
        yield b"blob\nmark :%d\n" % mark + _data(file.data)
    yield b"blob\nmark :%d\n" % note_mark + _data(gated.report.to_json())
    yield b"commit %s\nmark :%d\n" % (BRANCH.encode(), commit_mark) + committer + _data(subject.encode())
    yield _from(parents.revision) + b"deleteall\n"
    for mark, file in enumerate(files, start=1):
        yield b"M 100644 :%d %s\n" % (mark, _quoted(file))
    yield b"commit %s\n" % NOTES.encode() + committer + _data(b"Gate report\n") + _from(parents.note)
    yield b"N :%d :%d\ndone\n" % (note_mark, commit_mark)


def _data(data: bytes) -> bytes:
    return b"data %d\n" % len(data) + data + b"\n"


def _from(commit: str | None) -> bytes:
    return f"from {commit}\n".encode() if commit else b""


def _quoted(file: SourceFile) -> bytes:
    """A path in C quotes, so that no character of it can end the line or begin a command."""
    inner = file.path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{inner}"'.encode()
