"""Snapshots: read-only trees `workflows/<id>/…` of one package and its pins, named by what they hold.

    snapshots/<digest>/workflows/<id>/…      files 0444, directories 0555

Files come from `git archive`. Attributes inside a tree can drop or rewrite files there, so what came out is hashed again
and must give the commit's tree. A snapshot is made aside and renamed; one that exists is hashed before each use and made
again when it differs, so nothing needs to survive a power cut. Runs get copies of it, never the tree itself.
"""

from __future__ import annotations

import hashlib
import io
import os
import secrets
import tarfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from engine.catalog import git
from engine.catalog.pins import closure
from engine.catalog.refs import CorruptEntry
from engine.catalog.repos import Catalog
from engine.catalog.summary import Summary, summarise
from engine.catalog.trees import checked_entries, last_line
from engine.files import lock, make_directory, remove_tree, storage
from engine.package.contract import SourceFile, ValidatedPackage
from engine.package.pins import pins_of
from engine.package.tree_id import git_tree_id

_VERSION: Final = b"cloche snapshot 1\n"

Packages = Mapping[str, Mapping[str, bytes]]
"""Workflow id → path → bytes."""


@dataclass(frozen=True)
class PinnedSnapshot:
    """A checked tree on disk. `revision` is None for a candidate; `pins` are all reached packages, id → revision.

    `path` is the directory that holds `workflows/`; it stays the catalog's and must not be changed or handed to a cell.
    """

    digest: str
    path: Path
    workflow_id: str
    revision: str | None
    tree_id: str
    pins: Mapping[str, str] = field(hash=False)

    def summary(self) -> Summary:
        """What the package says about itself, read from the checked tree.

        Raises:
            CorruptEntry: its pyproject.toml cannot be read.
        """
        try:
            return summarise((self.path / "workflows" / self.workflow_id / "pyproject.toml").read_bytes())
        except (OSError, ValueError) as error:
            raise CorruptEntry(self.workflow_id, f"its pyproject.toml cannot be read ({error})") from error


class Snapshots:
    """The snapshots of one `$CLOCHE_HOME`."""

    def __init__(self, home: Path, catalog: Catalog) -> None:
        self._directory = home / "snapshots"
        self._catalog = catalog

    def for_revision(self, workflow_id: str, revision: str) -> PinnedSnapshot:
        """The snapshot of a full revision of a published, authorised package and its pins.

        Raises:
            NotFound, NotAuthorised, CorruptEntry: about the package or one it reaches, rewriting attributes included.
            PinConflict, CyclicDependency: the pins contradict each other.
            StorageFull, EngineFailure: it cannot be written.
        """
        workflow_id, revision = self._catalog.resolve(f"{workflow_id}@{revision}")
        own = self._exported(workflow_id, revision)
        pins = closure(self._catalog, workflow_id, pins_of(own.get("pyproject.toml", b"")))
        return self._made(workflow_id, revision=revision, own=own, pins=pins)

    def for_candidate(self, package: ValidatedPackage) -> PinnedSnapshot:
        """The snapshot of a candidate's bytes and its pins, as the gate runs it. Raises as `for_revision`."""
        own = {file.path: file.data for file in package.candidate.files}
        pins = closure(self._catalog, package.workflow_id, package.candidate.pins)
        return self._made(package.workflow_id, revision=None, own=own, pins=pins)

    def digest_of_kept(self, digest: str) -> str | None:
        """The digest of what is kept under `digest`: the same unless it was changed since it was made. None when nothing is.

        A tree that is no snapshot any more (a link, an empty folder, an unreadable file) gives "".
        """
        path = self._directory / digest
        if not path.is_dir():
            return None
        try:
            inner = path / "workflows"
            if list(path.iterdir()) != [inner]:
                return ""
            return snapshot_digest({entry.name: _tree_id(_files(entry)) for entry in inner.iterdir()})
        except (OSError, ValueError):
            return ""

    def collect(self, *, in_use: Callable[[], Collection[str]], before: datetime) -> list[str]:
        """Remove snapshots that were last asked for `before` and whose digest is not in use; gives their digests.

        `in_use` is asked only when there is an old one.

        Raises:
            StorageFull, EngineFailure: one could not be removed.
        """
        if not self._directory.is_dir():
            return []
        with lock(self._directory / ".lock", what="the snapshots"), storage(self._directory):
            old = [path for path in sorted(self._directory.iterdir()) if _is_older(path, before)]
            used = in_use() if old else ()
            unused = [path for path in old if path.name not in used]
            for path in unused:
                remove_tree(path)
            return [path.name for path in unused if not path.name.startswith(".")]

    def _exported(self, workflow_id: str, revision: str) -> dict[str, bytes]:
        """Path → bytes of a revision as `git archive` gives it, hashed again."""
        project = self._catalog.project(workflow_id)
        try:
            wanted = git.commit(git.objects_of(project), revision).tree_id
            checked_entries(project, revision)
            files = _unpacked(workflow_id, git.archive(git.objects_of(project), revision))
        except git.GitFailed as error:
            raise CorruptEntry(workflow_id, f"revision {revision} cannot be exported ({last_line(error)})") from error
        if _tree_id(files) != wanted:
            raise CorruptEntry(workflow_id, f"revision {revision} is exported with other bytes than were committed")
        return files

    def _made(
        self, workflow_id: str, *, revision: str | None, own: Mapping[str, bytes], pins: Mapping[str, str]
    ) -> PinnedSnapshot:
        packages = {name: self._exported(name, pinned) for name, pinned in pins.items()}
        packages[workflow_id] = dict(own)
        trees = {name: _tree_id(files) for name, files in packages.items()}
        digest = snapshot_digest(trees)
        path = self._directory / digest
        make_directory(self._directory)
        with lock(self._directory / ".lock", what="the snapshots"):
            if not _holds(path, trees):
                remove_tree(path)
                self._write(path, packages)
            os.utime(path)
        return PinnedSnapshot(digest, path, workflow_id, revision, trees[workflow_id], dict(pins))

    def _write(self, path: Path, packages: Packages) -> None:
        aside = self._directory / f".new-{secrets.token_hex(6)}"
        try:
            with storage(path):
                for name, files in packages.items():
                    for file, data in files.items():
                        target = aside / "workflows" / name / file
                        target.parent.mkdir(parents=True, exist_ok=True)
                        target.write_bytes(data)
                        target.chmod(0o444)
                for folder, _, _ in os.walk(aside / "workflows"):
                    Path(folder).chmod(0o555)
                aside.rename(path)
                path.chmod(0o555)
        except BaseException:
            remove_tree(aside)
            raise


def snapshot_digest(trees: Mapping[str, str]) -> str:
    """SHA-256 (64 hex) over the sorted lines `<id> <tree id>`."""
    lines = b"".join(f"{name} {tree_id}\n".encode() for name, tree_id in sorted(trees.items()))
    return hashlib.sha256(_VERSION + lines).hexdigest()


def _tree_id(files: Mapping[str, bytes]) -> str:
    return git_tree_id(SourceFile(path, data) for path, data in files.items())


def _unpacked(workflow_id: str, archive: bytes) -> dict[str, bytes]:
    """The regular files of a tar archive; anything but files and folders is refused."""
    files: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as tar:
        for member in tar:
            if member.isdir():
                continue
            content = tar.extractfile(member) if member.isreg() else None
            if content is None or member.name in files:
                raise CorruptEntry(workflow_id, f"{member.name!a} is exported as something else than one plain file")
            files[member.name] = content.read()
    return files


def _is_older(path: Path, before: datetime) -> bool:
    return path.is_dir() and path.stat().st_mtime < before.timestamp()


def _holds(path: Path, trees: Mapping[str, str]) -> bool:
    """True when the snapshot at `path` has exactly these packages with exactly these bytes, and no link anywhere."""
    try:
        inner = path / "workflows"
        if list(path.iterdir()) != [inner] or sorted(entry.name for entry in inner.iterdir()) != sorted(trees):
            return False
        return all(_tree_id(_files(path / "workflows" / name)) == tree_id for name, tree_id in trees.items())
    except (OSError, ValueError):
        return False


def _files(root: Path) -> dict[str, bytes]:
    """Path → bytes below `root`. Raises ValueError at a link, a special file or an empty folder."""
    files: dict[str, bytes] = {}
    with os.scandir(root) as scan:
        entries = list(scan)
    if not entries:
        raise ValueError(f"{root} is empty")
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            files.update({f"{entry.name}/{path}": data for path, data in _files(Path(entry.path)).items()})
        elif entry.is_file(follow_symlinks=False):
            files[entry.name] = Path(entry.path).read_bytes()
        else:
            raise ValueError(f"{entry.path} is no plain file")
    return files
