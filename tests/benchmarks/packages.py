"""Many packages: validating directories and listing a catalog, and how both grow. No engine is needed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from engine.catalog import git
from engine.catalog.listing import list_projects
from engine.catalog.refs import BRANCH
from engine.catalog.sources import FILE, VERSION, identity
from engine.files import make_directory
from engine.package.freeze import freeze
from engine.package.validate import validate
from tests.benchmarks.figures import Figure, Target, compare
from tests.benchmarks.rounds import interleaved
from tests.helpers.publishing import package_files, write_package

VALIDATED, LISTED = 200, 1000
GROWTH = Target("ratio", 1.15)
"""Twice as many may take this much more than twice as long."""


def measure_validation(*, root: Path, rounds: int) -> list[Figure]:
    """Freeze and validate 200 directories; beside it, twice the time of their first half."""
    directories = [write_package(root / "many", name, package_files(name)) for name in _names(VALIDATED)]
    half, whole = interleaved(
        partial(_validate, directories[: VALIDATED // 2]), partial(_validate, directories), rounds=rounds
    )
    return [_growth(f"validate {VALIDATED} packages", whole, half, VALIDATED)]


def measure_listing(*, root: Path, rounds: int) -> list[Figure]:
    """List a catalog of 1,000 packages; beside it, twice the time of one of 500."""
    half, whole = root / "half", root / "whole"
    make_catalog(whole, _names(LISTED))
    for name in _names(LISTED // 2):
        shutil.copytree(whole / "workflow" / name, half / "workflow" / name, copy_function=os.link)
    _authorise(half, _names(LISTED // 2))
    times = interleaved(partial(_list, half, LISTED // 2), partial(_list, whole, LISTED), rounds=rounds)
    return [_growth(f"list {LISTED:,} packages", times[1], times[0], LISTED)]


def make_catalog(catalog: Path, names: list[str]) -> None:
    """A catalog as publishing leaves it, but for work trees, indexes and notes, which a listing does not read."""
    projects = make_directory(catalog / "workflow")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(partial(_make_project, projects), names))
    _authorise(catalog, names)


def _authorise(catalog: Path, names: list[str]) -> None:
    document = {"version": VERSION, "entries": [identity(name) for name in names], "revoked": []}
    (catalog / FILE).write_text(json.dumps(document), encoding="utf-8")


def _make_project(projects: Path, name: str) -> None:
    make_directory(projects / name)
    git.init(projects / name)
    git.fast_import(projects / name / ".git", _stream(package_files(name)))


def _stream(files: Mapping[str, str]) -> bytes:
    """One commit on the branch (git-fast-import, INPUT FORMAT)."""
    lines = [f"commit {BRANCH}\ncommitter {git.AUTHOR} 1796040000 +0000\ndata 8\nPublish\n\n".encode()]
    for path, text in files.items():
        lines.append(f"M 100644 inline {path}\ndata {len(text.encode())}\n{text}\n".encode())
    return b"".join([*lines, b"done\n"])


def _names(count: int) -> list[str]:
    return [f"entry_{number:04d}" for number in range(count)]


def _validate(directories: list[Path]) -> None:
    for directory in directories:
        found = validate(freeze(directory))
        assert found.package is not None, found


def _list(catalog: Path, count: int) -> None:
    found = list_projects(catalog)
    assert (len(found.entries), found.problems) == (count, ())


def _growth(name: str, whole: list[float], half: list[float], count: int) -> Figure:
    return compare(
        name,
        measured=whole,
        baseline=f"twice the time of {count // 2:,}",
        baselines=[2 * seconds for seconds in half],
        target=GROWTH,
    )
