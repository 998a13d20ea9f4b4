"""Git as short verbs that return plain values; the only module that uses GitPython.

GitPython starts processes with a copy of this process's environment and lets a caller only add to it. So every command is
`env -i NAME=VALUE … git …`: what this process inherited ends there, and git sees exactly `_environment`.

A repository is never trusted to say how it wants to be read. Every verb but `update_refs` works in an empty
repository of its own that lasts for one command, and borrows only the object directory (or the index file) of the real one:
configuration, hooks, attributes, replacement and graft records of the real repository do not exist for them. `update_refs`
must open the real one; its command line overrides what could start a program. Nothing here writes a work tree, since
checking out applies filters.

Answers are bytes or values split at NUL. Every command has a deadline.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from engine.catalog.objects import (
    Commit,
    IndexEntry,
    RefUpdate,
    TreeEntry,
    batch_of,
    commit_of,
    index_entry_of,
    split,
    tree_entry_of,
)
from engine.errors import EngineFailure, StorageFull
from engine.files import storage, write_all
from engine.settings import tool_environment

TIMEOUT_S = 30.0
"""Deadline of one git command."""

ZERO = "0" * 40
"""Git's word for "does not exist" in a ref transaction."""

AUTHOR = "Cloche <cloche@localhost>"

_FULL_DISK = ("No space left on device", "Disk quota exceeded", "Out of diskspace")

_TEMPORARY = Path(tempfile.gettempdir())

_EMPTY = Path(__file__).with_name("empty_repository")
"""The least that git takes for a repository; it has no configuration, and git writes nothing into it."""

_NEARLY_FULL_BYTES = 1024 * 1024

_CONFIG = b"[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n"

_OVERRIDES = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.autocrlf": "false",
    "core.attributesFile": "/dev/null",
    "core.logAllRefUpdates": "false",
    "core.fsync": "all",
    "core.fsyncMethod": "fsync",
    "commit.gpgSign": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "fastimport.unpackLimit": "1",
    "protocol.allow": "never",
}


class GitMissing(EngineFailure):
    """There is no `git` on PATH."""

    code = "git_missing"


class GitFailed(EngineFailure):
    """A git command ended with another code than 0, or passed its deadline; `stderr` is what it said."""

    code = "git_failed"

    def __init__(self, argv: Sequence[str], status: int, stderr: str) -> None:
        said = stderr.strip()[-1000:]
        super().__init__(f"git {argv[0]} ended with {status}: {said}", fix="Check the repository with `git fsck`.")
        self.status = status
        self.stderr = stderr


def objects_of(repository: Path) -> Path:
    """The object directory of a repository with a work tree."""
    return repository / ".git" / "objects"


def init(directory: Path) -> None:
    """Make `directory` (which exists) a repository with the unborn branch `main`: no template, no hook, no setting of anybody.

    Written by hand (format: gitrepository-layout), since `git init` hides what kept it from writing.
    """
    _lay_out(directory / ".git", head="refs/heads/main")
    with storage(directory):
        (directory / ".git" / "config").write_bytes(_CONFIG)


def init_staging(directory: Path, *, borrows: Path) -> None:
    """Make `directory` a bare repository for new objects; it can see, and never writes, the object directory `borrows`."""
    _lay_out(directory, head="refs/heads/main", borrows=[borrows])


def commit(objects: Path, revision: str) -> Commit:
    """The commit `revision` in an object directory."""
    return commits(objects, revision, limit=1)[0]


def commits(objects: Path, revision: str, *, limit: int) -> list[Commit]:
    """`revision` and its ancestors, newest first, at most `limit`."""
    form = "%H%n%T%n%P%n%ct%n%s"
    out = _git_in(objects, ["log", "-z", f"--max-count={limit}", f"--format=tformat:{form}", revision, "--"])
    return [commit_of(record) for record in split(out)]


def ancestors(objects: Path, revision: str) -> list[str]:
    """`revision` and the ids of all its ancestors, newest first."""
    return _git_in(objects, ["rev-list", revision, "--"]).decode("ascii").split()


def tree(objects: Path, revision: str) -> list[TreeEntry]:
    """Every file of the tree of a commit, in git's order."""
    out = _git_in(objects, ["ls-tree", "-r", "-z", "-l", "--full-tree", revision])
    return [tree_entry_of(record) for record in split(out)]


def blobs(object_directories: Sequence[Path], names: Sequence[str]) -> list[bytes | None]:
    """The contents of objects (`<id>`, `<commit>:<path>`), None for one that is missing; one process for all of them."""
    if any("\n" in name for name in names):
        raise ValueError("an object name cannot hold a line break")
    out = _git_in(object_directories, ["cat-file", "--batch"], stdin="".join(f"{name}\n" for name in names).encode())
    return list(batch_of(out, names))


def archive(objects: Path, revision: str) -> bytes:
    """The tree of a commit as a tar archive. Attributes inside the tree can drop or rewrite files: hash what comes out."""
    return _git_in(objects, ["archive", "--format=tar", revision])


def note(objects: Path, notes: str, revision: str) -> bytes | None:
    """The note on a commit in a notes commit (fanned out or not), None when there is none."""
    found = [entry.object_id for entry in tree(objects, notes) if entry.path.replace("/", "") == revision]
    return blobs([objects], found)[0] if found else None


def diff(objects: Path, old: str, new: str) -> bytes:
    """The difference of two commits as a patch; no external program and no text conversion takes part."""
    options = ["-r", "-p", "-M", "--no-color", "--no-ext-diff", "--no-textconv", "--full-index"]
    return _git_in(objects, ["diff-tree", *options, old, new, "--"])


def fast_import(staging: Path, stream: bytes) -> None:
    """Feed a `git fast-import` stream to a staging repository; the new objects lie in one pack there."""
    _git(
        ["fast-import", "--quiet", "--done", "--date-format=raw"],
        env={"GIT_DIR": str(staging)},
        stdin=stream,
        writes=staging,
    )


def ref(repository: Path, name: str) -> str | None:
    """The object id a ref of a bare staging repository stands at, None when it does not exist."""
    found = (
        _git(["for-each-ref", "--format=%(objectname)", name], env={"GIT_DIR": str(repository)}).decode("ascii").split()
    )
    return found[0] if found else None


def update_refs(repository: Path, updates: Iterable[RefUpdate]) -> None:
    """Move refs of the repository with work tree `repository`, all or none, in this order.

    Raises:
        GitFailed: a ref is not at its `old` value, or another process holds its lock.
    """
    lines = [f"update {update.name}\0{update.new}\0{update.old}\0" for update in updates]
    stream = "".join(["start\0", *lines, "prepare\0", "commit\0"]).encode()
    _git(["update-ref", "--stdin", "-z"], env={"GIT_DIR": str(repository / ".git")}, stdin=stream, writes=repository)


def read_index(index: Path) -> list[IndexEntry]:
    """The entries of an index file; an absent file has none."""
    out = _git_in((), ["ls-files", "--stage", "-z"], GIT_INDEX_FILE=str(index))
    return [index_entry_of(record) for record in split(out)]


def write_index(index: Path, objects: Path, revision: str) -> None:
    """Write an index file (a new name) that holds the tree of a commit."""
    _git_in(objects, ["read-tree", revision], GIT_INDEX_FILE=str(index))


def _git_in(objects: Path | Sequence[Path], argv: Sequence[str], *, stdin: bytes = b"", **extra: str) -> bytes:
    """Run in a repository that is empty, and part of this package, but for the object directories that it sees.

    Nothing is made for it, so that a process that is killed leaves nothing behind.
    """
    seen = [objects] if isinstance(objects, Path) else list(objects)
    borrowed = {}
    if seen:
        borrowed["GIT_OBJECT_DIRECTORY"] = str(seen[0])
    if seen[1:]:
        borrowed["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = ":".join(map(_quoted, seen[1:]))
    return _git(argv, env={"GIT_DIR": str(_EMPTY), **borrowed, **extra}, stdin=stdin)


def _quoted(path: Path) -> str:
    """As git reads a path in a list of them, whatever stands in it."""
    return '"' + "".join(c if (c.isascii() and c.isalnum()) or c in "/._-" else _octal(c) for c in str(path)) + '"'


def _octal(character: str) -> str:
    return "".join(f"\\{byte:03o}" for byte in os.fsencode(character))


def _lay_out(git_dir: Path, *, head: str, borrows: Sequence[Path] = ()) -> None:
    """The least that git takes for a repository; without a configuration file, so that nothing is set."""
    with storage(git_dir):
        (git_dir / "objects" / "info").mkdir(parents=True)
        (git_dir / "objects" / "pack").mkdir()
        (git_dir / "refs").mkdir()
        (git_dir / "HEAD").write_bytes(f"ref: {head}\n".encode())
        if borrows:
            lines = b"".join(str(path).encode() + b"\n" for path in borrows)
            (git_dir / "objects" / "info" / "alternates").write_bytes(lines)


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    """All that git sees of its surroundings."""
    name, _, address = AUTHOR.partition(" <")
    return {
        **tool_environment(),
        "TZ": "UTC",
        "GIT_CONFIG_NOSYSTEM": "1",  # no /etc/gitconfig
        "GIT_CONFIG_GLOBAL": "/dev/null",  # no ~/.gitconfig
        "GIT_ATTR_NOSYSTEM": "1",  # no /etc/gitattributes
        "GIT_NO_REPLACE_OBJECTS": "1",  # refs/replace would show other bytes under an id
        "GIT_OPTIONAL_LOCKS": "0",  # reading never writes
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": address.rstrip(">"),
        "GIT_COMMITTER_NAME": name,
        "GIT_COMMITTER_EMAIL": address.rstrip(">"),
        **extra,
    }


def _git(argv: Sequence[str], *, env: Mapping[str, str], stdin: bytes = b"", writes: Path | None = None) -> bytes:
    """Run one git command to its end and give its standard output. `writes`: a directory on the disk that it writes to.

    Raises:
        GitMissing, GitFailed, StorageFull: as their names say.
    """
    from git import Git  # loaded when it is needed: an empty catalog is listed without it
    from git.exc import GitCommandNotFound

    variables = [f"{name}={value}" for name, value in _environment(env).items()]
    overrides = [part for name, value in _OVERRIDES.items() for part in ("-c", f"{name}={value}")]
    command = ["env", "-i", *variables, "git", "--no-pager", *overrides, *argv]
    with _readable(stdin) as source:
        try:
            status, out, err = Git("/").execute(
                command,
                istream=source,
                with_extended_output=True,
                with_exceptions=False,
                stdout_as_string=False,
                strip_newline_in_stdout=False,
                kill_after_timeout=TIMEOUT_S,
                start_new_session=True,  # Ctrl-C on a terminal must not end git half-way
            )
        except GitCommandNotFound as error:
            raise GitMissing("there is no `env` on PATH.", fix="Install coreutils.") from error
    assert isinstance(out, bytes)
    if status == 127:
        raise GitMissing("there is no `git` on PATH.", fix="Install git (Debian: apt-get install git).")
    if status != 0:
        said = err if isinstance(err, str) else bytes(err).decode("utf-8", "backslashreplace")
        if _says_full(said, writes):
            raise StorageFull(
                f"git {argv[0]}: no space left ({said.strip()[-200:]}).", fix="Free disk space, then run it again."
            )
        raise GitFailed(argv, status, said)
    return out


@contextmanager
def _readable(data: bytes) -> Iterator[BinaryIO]:
    """A nameless file that holds `data`: GitPython takes no bytes as standard input."""
    with ExitStack() as stack:
        with storage(_TEMPORARY):
            file = stack.enter_context(tempfile.TemporaryFile())
            write_all(file.fileno(), data)
            file.seek(0)
        yield file


def _says_full(said: str, writes: Path | None) -> bool:
    """True for a failure to write on a full disk; git often does not say why it could not write."""
    if any(sign in said for sign in _FULL_DISK):
        return True
    if writes is None or "write" not in said:
        return False
    room = os.statvfs(writes)
    return room.f_bavail * room.f_frsize < _NEARLY_FULL_BYTES or room.f_favail == 0 < room.f_files
