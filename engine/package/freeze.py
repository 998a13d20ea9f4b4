"""Freezing: from a directory, or an author's reply, to a Candidate.

Only reads. Never follows a link, opens nothing but regular files, reads at most the bounds; what it had to leave out is
a finding. Everything is reached from one directory descriptor, so a path that is swapped meanwhile is not entered.
Both ways in put the same files through the same rules: the same bytes give the same candidate.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from engine.errors import NotFound, UsageError
from engine.package import bounds
from engine.package.contract import Candidate, Diagnostic, SourceFile, build_candidate
from engine.package.layout import Place, Verdict, place, shown
from engine.package.pins import pins_of, with_pins_in
from engine.package.rules import Findings
from engine.package.rules_text import check_text
from engine.package.tree_id import git_tree_id

__all__ = ["freeze", "freeze_files", "git_tree_id", "with_pins"]

_FIXES = {
    Verdict.unexpected: "Move it (text that code reads: resources/; test data: tests/data/) or remove it; "
    "docs/reference/rules.md says what may lie where.",
    Verdict.bad_name: "Rename it: printable UTF-8, no backslash, modules as Python names them.",
    Verdict.too_long: "Shorten the path.",
    Verdict.too_deep: "Move it up.",
}
_MESSAGES = {
    Verdict.unexpected: "does not belong in a package.",
    Verdict.bad_name: "has a name that is not allowed.",
    Verdict.too_long: f"has a path of more than {bounds.PATH_CHARACTERS} characters.",
    Verdict.too_deep: f"lies more than {bounds.PATH_LEVELS} levels deep.",
}


class Unreadable(UsageError):
    """Something in the candidate's directory cannot be read by this user."""

    code = "unreadable"


def freeze(directory: Path) -> Candidate:
    """The candidate that lies in `directory`, whose last component is the workflow id.

    Raises:
        NotFound: no such directory.
        UsageError: it is a link or no directory.
        Unreadable: an entry in it cannot be read.
    """
    collector = _Collector()
    absolute = Path(os.path.abspath(directory))  # noqa: PTH100 (resolve() would follow links)
    root = _open_root(absolute)
    try:
        _walk(root, "", collector)
    except _Overflow:
        pass
    except OSError as error:
        raise Unreadable(
            f"cannot read {error.filename or absolute}: {error.strerror}.", fix="Check its rights."
        ) from error
    finally:
        os.close(root)
    return collector.candidate(absolute.name)


def freeze_files(workflow_id: str, files: Mapping[str, bytes]) -> Candidate:
    """The candidate made of an author's reply: relative POSIX path → bytes."""
    collector = _Collector()
    try:
        for path in sorted(files, key=lambda path: path.split("/")):
            if collector.wants(path) and collector.has_room(path, len(files[path])):
                collector.keep(path, files[path])
        collector.refuse_files_inside_files()
    except _Overflow:
        pass
    return collector.candidate(workflow_id)


def with_pins(candidate: Candidate, pins: Mapping[str, str]) -> Candidate:
    """The candidate with `workflow-dependencies` rewritten to `pins`, under the table it found, all else unchanged.

    Equal pins give the same bytes.

    Raises:
        InvalidPackage: pyproject.toml is missing, no TOML, or of the wrong types.
    """
    rewritten = with_pins_in(candidate.file("pyproject.toml"), pins)
    files = tuple(
        SourceFile(file.path, rewritten) if file.path == "pyproject.toml" else file for file in candidate.files
    )
    return build_candidate(
        candidate.workflow_id, files=files, tree_id=git_tree_id(files), pins=pins, findings=candidate.findings
    )


class _Overflow(Exception):
    """The tree is past a bound that makes reading on pointless."""


class _Collector:
    """Takes paths and bytes, gives a candidate; the one place that applies layout and bounds."""

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}
        self._findings = Findings()
        self._count = self._bytes = self._entries = 0
        self._overflow: Diagnostic | None = None

    def wants(self, path: str, *, folder: bool = False) -> bool:
        """True when `path` is part of the layout; a refused one is reported at the outermost refused component."""
        found = place(path, folder=folder)
        self._report(found)
        return found.verdict is Verdict.keep

    def enters(self, path: str) -> bool:
        """True for a folder to look into: one of the layout, or a bytecode cache, which may hold bytecode only."""
        ignored = place(path, folder=True).verdict is Verdict.ignore
        return (ignored and path.endswith("__pycache__")) or self.wants(path, folder=True)

    def _report(self, found: Place) -> None:
        if found.verdict in (Verdict.keep, Verdict.ignore):
            return
        message, fix = _MESSAGES[found.verdict], _FIXES[found.verdict]
        self._findings.add(found.verdict.value, shown(found.at), message, fix=fix)

    def entry(self) -> None:
        """Count a directory entry that was looked at."""
        self._entries += 1
        if self._entries > bounds.SCANNED_ENTRIES:
            self._stop("tree.file_count", f"more than {bounds.SCANNED_ENTRIES} directory entries.")

    def link(self, path: str) -> None:
        self._findings.add("tree.symlink", shown(path), "is a symbolic link.", fix="Replace it by the file itself.")

    def special(self, path: str) -> None:
        self._findings.add("tree.special", shown(path), "is no regular file.", fix="Remove it.")

    def has_room(self, path: str, size: int) -> bool:
        """Count a file of `size` bytes; False when it alone is too large."""
        self._count += 1
        if self._count > bounds.FILES:
            self._stop("tree.file_count", f"more than {bounds.FILES} files.")
        if size > bounds.FILE_BYTES:
            self._findings.add(
                "tree.file_size", shown(path), "is larger than 1 MiB.", fix="Split it, or leave it out of the package."
            )
            return False
        self._bytes += size
        if self._bytes > bounds.TREE_BYTES:
            self._stop("tree.total_size", "all files together are larger than 5 MiB.")
        return True

    def keep(self, path: str, data: bytes) -> None:
        self._files[path] = data

    def refuse_files_inside_files(self) -> None:
        """A reply can name `a` and `a/b`; a directory cannot."""
        for path in sorted(self._files):
            parents = Path(path).parents
            if any(str(parent) in self._files for parent in parents):
                del self._files[path]
                self._findings.add(
                    "tree.unexpected", path, "lies inside something that is a file.", fix="Rename one of the two."
                )

    def _stop(self, rule: str, message: str) -> None:
        findings = Findings()
        findings.add(rule, "", message, fix="A package holds its code and small resources; leave the rest out.")
        (self._overflow,) = findings.ordered()
        raise _Overflow

    def candidate(self, workflow_id: str) -> Candidate:
        """What was collected. Past a bound of the whole tree: no file and that one finding, whatever came first."""
        if self._overflow is not None:
            return build_candidate(workflow_id, files=(), tree_id=git_tree_id(()), pins={}, findings=(self._overflow,))
        files = tuple(SourceFile(path, self._files[path]) for path in sorted(self._files))
        for file in files:
            check_text(file, self._findings)
        return build_candidate(
            workflow_id,
            files=files,
            tree_id=git_tree_id(files),
            pins=pins_of(self._files.get("pyproject.toml", b"")),
            findings=self._findings.ordered(),
        )


def _open_root(directory: Path) -> int:
    try:
        return os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise NotFound(f"there is no directory {directory}.", fix="Check the path.") from error
    except OSError as error:
        reason = "is a symbolic link" if directory.is_symlink() else "is no directory"
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            reason = f"cannot be read ({error.strerror})"
        raise UsageError(f"{directory} {reason}.", fix="Name the directory of a package.") from error


def _walk(folder: int, prefix: str, collector: _Collector) -> None:
    """Take in one open folder, its own folders included; at most as deep as the layout allows."""
    with os.scandir(folder) as entries:
        names: list[tuple[str, int]] = []
        for entry in entries:
            collector.entry()
            names.append((entry.name, entry.stat(follow_symlinks=False).st_mode))
    for name, mode in sorted(names):
        path = f"{prefix}{name}"
        if stat.S_ISLNK(mode):
            collector.link(path)
        elif stat.S_ISDIR(mode):
            if collector.enters(path):
                with _opened(folder, name, os.O_DIRECTORY) as inner:
                    _walk(inner, f"{path}/", collector)
        elif not stat.S_ISREG(mode):
            collector.special(path)
        elif collector.wants(path):
            _take(folder, name, path, collector)


def _take(folder: int, name: str, path: str, collector: _Collector) -> None:
    """Read one file within its bound; what stopped being a regular file meanwhile is not read."""
    with _opened(folder, name, os.O_NONBLOCK) as file:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            collector.special(path)
            return
        data = _read(file) if found.st_size <= bounds.FILE_BYTES else b""
        if collector.has_room(path, max(len(data), found.st_size)):
            collector.keep(path, data)


def _read(file: int) -> bytes:
    """At most one byte more than a file may have, so that growth is noticed."""
    data = b""
    while len(data) <= bounds.FILE_BYTES:
        piece = os.read(file, bounds.FILE_BYTES + 1 - len(data))
        if not piece:
            break
        data += piece
    return data


@contextmanager
def _opened(folder: int, name: str, flags: int) -> Iterator[int]:
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
