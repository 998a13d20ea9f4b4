"""Freezing: what is read, what is refused, and ids that git agrees with."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import proc
from engine.errors import NotFound, UsageError
from engine.package.contract import SourceFile
from engine.package.freeze import freeze, freeze_files, git_tree_id
from engine.package.validate import validate
from engine.settings import tool_environment
from tests.helpers.package_cases import BASE, PackageCase, files_of

NAMES = st.text("ab.-/0", min_size=1, max_size=8)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return PackageCase("", BASE, {}).build(tmp_path)


def git(directory: Path, *arguments: str) -> str:
    env = {**tool_environment(), "HOME": str(directory), "GIT_CONFIG_NOSYSTEM": "1"}
    return proc.run(["git", *arguments], env=env, cwd=directory).stdout.decode().strip()


def tree_id_by_git(directory: Path) -> str:
    git(directory, "init", "-q")
    git(directory, "-c", "core.autocrlf=false", "add", "-A")
    return git(directory, "write-tree")


def test_the_tree_id_is_the_one_git_writes(package: Path) -> None:
    assert freeze(package).tree_id == tree_id_by_git(package)


def test_the_tree_id_sorts_folders_as_git_does(tmp_path: Path) -> None:
    files = [SourceFile(path, path.encode()) for path in ("a-b/x", "a/x", "a.b", "a0/y/z", "a/0", "b")]
    for file in files:
        (tmp_path / file.path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file.path).write_bytes(file.data)
    assert git_tree_id(files) == git_tree_id(reversed(files)) == tree_id_by_git(tmp_path)


def test_the_tree_id_of_nothing_is_gits_empty_tree() -> None:
    assert git_tree_id(()) == "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


def test_freezing_twice_gives_the_same_candidate(package: Path) -> None:
    assert freeze(package) == freeze(package)


def test_a_change_after_freezing_has_no_effect(package: Path) -> None:
    candidate = freeze(package)
    before = candidate.file("workflow.py")
    (package / "workflow.py").write_text("raise SystemExit\n")
    assert candidate.file("workflow.py") == before
    assert freeze(package).tree_id != candidate.tree_id


def test_freezing_and_validating_write_nothing(package: Path) -> None:
    before = {path: path.lstat().st_mtime_ns for path in [package, *package.rglob("*")]}
    validate(freeze(package))
    assert {path: path.lstat().st_mtime_ns for path in [package, *package.rglob("*")]} == before


def test_ignored_files_are_not_in_the_candidate(package: Path) -> None:
    expected = freeze(package)
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "workflow.cpython-311.pyc").write_bytes(b"\0")
    (package / ".git").mkdir()
    (package / ".git" / "config").write_text("[core]\n")
    assert freeze(package) == expected


def test_a_link_is_not_followed_even_to_a_file_of_the_package(package: Path) -> None:
    (package / "LICENSE").symlink_to(package / "README.md")
    candidate = freeze(package)
    assert candidate.file("LICENSE") is None
    assert [found.rule for found in candidate.findings] == ["tree.symlink"]


def test_a_fifo_does_not_block_freezing(package: Path) -> None:
    os.mkfifo(package / "LICENSE")
    assert [found.rule for found in freeze(package).findings] == ["tree.special"]


def test_nested_bytecode_caches_are_not_entered_without_end(package: Path) -> None:
    deep = package / "/".join(["__pycache__"] * 40)
    deep.mkdir(parents=True)
    assert [found.rule for found in freeze(package).findings] == ["tree.unexpected"]


def test_a_folder_of_countless_ignored_entries_is_given_up(package: Path) -> None:
    cache = package / "__pycache__"
    cache.mkdir()
    for number in range(5001):
        (cache / f"{number}.pyc").touch()
    assert [found.rule for found in freeze(package).findings] == ["tree.file_count"]


def test_a_tree_past_a_bound_is_told_that_alone(package: Path) -> None:
    (package / "resources").mkdir()
    (package / "setup.py").write_text("")
    for number in range(200):
        (package / "resources" / f"{number}.txt").touch()
    candidate = freeze(package)
    assert candidate.files == ()
    assert [found.rule for found in validate(candidate).diagnostics] == ["tree.file_count"]
    assert freeze_files(package.name, files_of(package)) == candidate


def test_a_missing_directory_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no directory"):
        freeze(tmp_path / "absent")


def test_a_file_and_a_link_are_no_directories(package: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no directory"):
        freeze(package / "README.md")
    (tmp_path / "link").symlink_to(package)
    with pytest.raises(UsageError, match="is a symbolic link"):
        freeze(tmp_path / "link")


def test_a_reply_with_paths_that_leave_the_package_is_refused() -> None:
    files = {"../x.py": b"", "/etc/passwd": b"", "steps//x.py": b"", "./workflow.py": b"", "steps/../y.py": b""}
    candidate = freeze_files("word_count", files)
    assert candidate.files == ()
    assert {found.rule for found in candidate.findings} == {"tree.path_name"}


def test_a_reply_with_a_file_inside_a_file_is_refused() -> None:
    files = {**files_of(BASE), "resources/a.txt": b"x", "resources/a.txt/b.txt": b"x"}
    assert [found.rule for found in validate(freeze_files("word_count", files)).diagnostics] == ["tree.unexpected"]


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(NAMES, st.binary(max_size=8), max_size=6))
def test_any_reply_is_judged_and_judged_the_same_again(files: dict[str, bytes]) -> None:
    first = validate(freeze_files("word_count", {**files_of(BASE), **files}))
    again = validate(freeze_files("word_count", {**dict(reversed(files.items())), **files_of(BASE), **files}))
    assert first == again
    assert list(first.diagnostics) == sorted(first.diagnostics)
