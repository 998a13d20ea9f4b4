"""Listing a whole catalog: refs from files, metadata of 50 projects with one git process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from engine.catalog import git, refs, sources, unfinished
from engine.catalog.objects import moment, parse_commit
from engine.catalog.refs import CorruptEntry
from engine.catalog.summary import Summary, summarise
from engine.errors import ClocheError
from engine.ids import WORKFLOW_ID

GROUP: Final = 50
"""Projects read by one git process. More would make each object be looked for in too many places."""


@dataclass(frozen=True)
class CatalogEntry:
    """One authorised package at its active revision."""

    workflow_id: str
    revision: str
    tree_id: str
    published_at: datetime
    summary: Summary

    def to_dict(self) -> dict[str, object]:
        """The public JSON form."""
        return {
            "workflow_id": self.workflow_id,
            "revision": self.revision,
            "tree_id": self.tree_id,
            "published_at": self.published_at.isoformat(),
            **self.summary.to_dict(),
        }


@dataclass(frozen=True)
class Problem:
    """Something in the catalog that was left out, or needs its owner: the name on disk, an error code, one sentence."""

    name: str
    code: str
    message: str
    fix: str

    def to_dict(self) -> dict[str, str]:
        """The public JSON form."""
        return {"name": self.name, "code": self.code, "message": self.message, "fix": self.fix}


@dataclass(frozen=True)
class Listing:
    """Entries by id, and problems by name."""

    entries: tuple[CatalogEntry, ...]
    problems: tuple[Problem, ...]


def list_projects(catalog: Path) -> Listing:
    """All projects of a catalog directory; an absent one is empty.

    Raises:
        SourcesDamaged: the owner's record cannot be read.
    """
    problems = list(_complete_pending(catalog))
    record = sources.read(catalog)
    problems += [Problem(sources.FILE, "bad_identity", text, "Correct the row.") for text in record.refused]
    wanted: list[tuple[Path, str]] = []
    for project in _projects(catalog):
        problem = _authorisation(project.name, record)
        if problem is not None:
            problems.append(problem)
            continue
        try:
            wanted.append((project, refs.active_revision(project)))
        except CorruptEntry as error:
            problems.append(_problem(project.name, error))
    groups = [wanted[at : at + GROUP] for at in range(0, len(wanted), GROUP)]
    found = [item for group in groups for item in _read_group(group)]
    entries = tuple(item for item in found if isinstance(item, CatalogEntry))
    problems += [item for item in found if isinstance(item, Problem)]
    return Listing(entries, tuple(sorted(problems, key=lambda problem: (problem.name, problem.code))))


def _projects(catalog: Path) -> list[Path]:
    """What lies in the catalog by name; names with a dot in front are Cloche's own."""
    try:
        return sorted(path for path in (catalog / "workflow").iterdir() if not path.name.startswith("."))
    except FileNotFoundError:
        return []


def _complete_pending(catalog: Path) -> Iterator[Problem]:
    for workflow_id in unfinished.pending(catalog):
        try:
            unfinished.complete(catalog, workflow_id)
        except ClocheError as error:
            yield _problem(workflow_id, error)


def _authorisation(name: str, record: sources.Sources) -> Problem | None:
    if not WORKFLOW_ID.fullmatch(name):
        return Problem(name, "corrupt_entry", f"{name!a} is no workflow id.", "Remove it from the catalog.")
    if name in record.revoked:
        return Problem(name, "not_authorised", f"{name} was revoked by its owner.", "")
    if not record.allows(name):
        fix = f"Publish it, or add it to catalog/{sources.FILE} if you own this catalog."
        return Problem(name, "not_authorised", f"{name} is not in catalog/{sources.FILE}.", fix)
    return None


def _read_group(group: Sequence[tuple[Path, str]]) -> list[CatalogEntry | Problem]:
    """Metadata of some projects; damage in one makes each be read alone, so that only that one is lost."""
    names = [name for _, revision in group for name in (revision, f"{revision}:pyproject.toml")]
    try:
        found = git.blobs([git.objects_of(project) for project, _ in group], names)
    except git.GitFailed as error:
        if len(group) > 1:
            return [item for one in group for item in _read_group([one])]
        return [_problem(group[0][0].name, CorruptEntry(group[0][0].name, error.stderr.strip().split("\n")[-1]))]
    return [
        _entry(project.name, revision, found[2 * at], found[2 * at + 1]) for at, (project, revision) in enumerate(group)
    ]


def _entry(name: str, revision: str, commit: bytes | None, pyproject: bytes | None) -> CatalogEntry | Problem:
    try:
        if commit is None or pyproject is None:
            raise ValueError(f"revision {revision} or its pyproject.toml is missing")
        tree_id, committed_at = parse_commit(commit)
        summary = summarise(pyproject)
    except ValueError as error:
        return _problem(name, CorruptEntry(name, str(error)))
    return CatalogEntry(name, revision, tree_id, moment(committed_at), summary)


def _problem(name: str, error: ClocheError) -> Problem:
    return Problem(name, error.code, error.message, error.fix)
