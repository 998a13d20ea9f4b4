"""Where files of a package may lie. Pure: judges paths, touches nothing.

Freezing a directory and freezing an author's reply both ask `place`, so that both see the same tree.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from engine.package.bounds import PATH_CHARACTERS, PATH_LEVELS

CODE_FOLDERS: Final = frozenset({"steps", "goals", "helpers"})
RESOURCES: Final = "resources"
TESTS: Final = "tests"
TEST_FILE: Final = "tests/test_workflow.py"
REQUIRED: Final = ("pyproject.toml", "README.md", "__init__.py", "workflow.py", TEST_FILE)
ROOT_FILES: Final = frozenset({"pyproject.toml", "README.md", "__init__.py", "workflow.py", "LICENSE"})
RESOURCE_SUFFIXES: Final = (".md", ".txt", ".json", ".csv", ".toml", ".yaml")
TEST_DATA_SUFFIXES: Final = (*RESOURCE_SUFFIXES, ".log", ".lock", ".in")

_IGNORED_FOLDERS = frozenset({".git", ".pytest_cache", ".mypy_cache", ".ruff_cache"})
_IGNORED_FILES = frozenset({".git", ".gitignore", ".DS_Store"})
_MODULE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TEST_MODULE = re.compile(r"test_[A-Za-z0-9_]+\.py")


class Verdict(Enum):
    """What becomes of a path; all but the first two are rules broken."""

    keep = "keep"
    ignore = "ignore"
    unexpected = "tree.unexpected"
    bad_name = "tree.path_name"
    too_long = "tree.path_length"
    too_deep = "tree.path_depth"


@dataclass(frozen=True)
class Place:
    """A verdict and the path it is about: for a refused folder that folder, whatever lies in it."""

    verdict: Verdict
    at: str


def shown(path: str) -> str:
    """A path as it may be printed: unprintable and undecodable characters escaped, at most 200 characters."""
    clipped = path if len(path) <= PATH_CHARACTERS else path[: PATH_CHARACTERS - 1] + "…"
    return "".join(part if part.isprintable() else ascii(part)[1:-1] for part in clipped)


def place(path: str, *, folder: bool = False) -> Place:
    """Judge one relative POSIX path, outermost component first. `folder`: the path itself is a folder."""
    parts = path.split("/")
    for count in range(1, len(parts) + 1):
        head = "/".join(parts[:count])
        is_folder = folder or count < len(parts)
        verdict = _component(parts[:count], is_folder=is_folder)
        if verdict is not Verdict.keep:
            return Place(verdict, head)
        if is_folder and parts[count - 1] == "__pycache__":
            return _in_bytecode_cache(parts, path, count, folder=folder)
    if not folder and len(path) > PATH_CHARACTERS:
        return Place(Verdict.too_long, path)
    return Place(Verdict.keep, path)


def _component(parts: list[str], *, is_folder: bool) -> Verdict:
    name = parts[-1]
    if not _is_printable(name):
        return Verdict.bad_name
    if name in (_IGNORED_FOLDERS if is_folder else _IGNORED_FILES):
        return Verdict.ignore
    if is_folder and name == "__pycache__":
        return Verdict.keep
    if not (_folder_allowed(parts) if is_folder else _file_allowed(parts)):
        return Verdict.unexpected
    if is_folder and len(parts) >= PATH_LEVELS:
        return Verdict.too_deep
    if parts[0] in CODE_FOLDERS and not _MODULE.fullmatch(name if is_folder else name.removesuffix(".py")):
        return Verdict.bad_name
    return Verdict.keep


def _in_bytecode_cache(parts: list[str], path: str, count: int, *, folder: bool) -> Place:
    """Bytecode right inside `__pycache__` is ignored, anything else in there is not."""
    if (folder and count == len(parts)) or (not folder and count + 1 == len(parts) and path.endswith(".pyc")):
        return Place(Verdict.ignore, path)
    return Place(Verdict.unexpected, "/".join(parts[: count + 1]))


def _is_printable(name: str) -> bool:
    return name not in ("", ".", "..") and name.isprintable() and "\\" not in name


def _folder_allowed(parts: list[str]) -> bool:
    if parts[0] == TESTS:
        return len(parts) == 1 or parts[1] == "data"
    return parts[0] in CODE_FOLDERS or parts[0] == RESOURCES


def _file_allowed(parts: list[str]) -> bool:
    name = parts[-1]
    if len(parts) == 1:
        return name in ROOT_FILES
    if parts[0] in CODE_FOLDERS:
        return name.endswith(".py")
    if parts[0] == RESOURCES:
        return name.endswith(RESOURCE_SUFFIXES)
    if len(parts) == 2:
        return name in ("__init__.py", "conftest.py") or _TEST_MODULE.fullmatch(name) is not None
    return name.endswith(TEST_DATA_SUFFIXES)


def is_test(path: str) -> bool:
    """True for what lies in `tests/`: its imports make no dependency, and pytest may be used."""
    return path.startswith(f"{TESTS}/")


def is_test_module(path: str) -> bool:
    """True for `tests/test_*.py`, where cases are."""
    return _TEST_MODULE.fullmatch(path.removeprefix(f"{TESTS}/")) is not None and is_test(path)
