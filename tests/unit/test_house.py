"""The rules of the house that no linter knows: layers, tracked names and words, locks, and tests that can fail."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.main import VERSION

ROOT = Path(__file__).parents[2]
TOP_LEVEL = {
    ".ci", ".gitignore", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md", "SECURITY.md",
    "cli", "docs", "engine", "examples", "pyproject.toml", "sandbox_images", "tests",
}  # fmt: skip
LOCKS = (".ci/requirements.lock", ".ci/requirements-dev.lock")
# Joined here so that this file does not hold what it forbids.
REGISTRIES = [
    ".".join(parts)
    for parts in (
        ("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("npmjs", "com"), ("crates", "io"), ("ghcr", "io"),
        ("quay", "io"), ("gcr", "io"), ("registry-1", "docker", "io"), ("index", "docker", "io"), ("hub", "docker", "com"),
        ("download", "docker", "com"), ("deb", "debian", "org"), ("security", "debian", "org"),
        ("snapshot", "debian", "org"), ("ftp", "debian", "org"), ("archive", "ubuntu", "com"), ("rubygems", "org"),
        ("proxy", "golang", "org"), ("repo", "maven", "apache", "org"), ("conda", "anaconda", "org"),
    )
]  # fmt: skip
# Packages that are input of tests: they break rules on purpose.
INPUT = ("tests/contract/packages/", "tests/fixtures/")


def tracked() -> list[str]:
    """Tracked files that exist, and new ones that are not ignored: what a clone will hold."""
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    return sorted(name for name in set(listed.stdout.decode().split("\0")) if name and (ROOT / name).is_file())


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    found = []
    for name in tracked():
        text = (ROOT / name).read_text(encoding="utf-8", errors="replace")
        for number, line in enumerate(text.splitlines(), 1):
            if pattern.search(line):
                found.append(f"{name}:{number}: {line.strip()[:120]}")
    return found


def test_the_tree_has_the_agreed_top_level_and_nothing_else() -> None:
    assert {name.split("/")[0] for name in tracked()} <= TOP_LEVEL


def test_imports_go_one_way() -> None:
    done = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports"))], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_file_names_the_host_of_a_registry() -> None:
    assert lines_with(re.compile("|".join(re.escape(host) for host in REGISTRIES), re.IGNORECASE)) == []


def test_no_file_names_a_path_of_the_machine_it_was_written_on() -> None:
    places = "|".join(["work/" + "(main|shared)", "opt/" + "wheels", "opt/" + "pypi", "root/" + r"\.pyenv"])
    assert lines_with(re.compile(rf"(?<![\w.-])/({places})\b")) == []


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_pins_and_hashes_every_package_and_names_no_source(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert "http" not in text
    assert not re.search(r"^--|file:|find-links|index", text, re.MULTILINE)
    entries = [entry for entry in re.split(r"\n(?=[A-Za-z0-9])", text) if entry.strip()]
    assert entries
    for entry in entries:
        assert re.match(r"[A-Za-z0-9._-]+==[^ ]+ ", entry), entry[:80]
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry[:80]


def test_the_development_lock_holds_the_runtime_lock_version_for_version() -> None:
    runtime, development = (
        set(re.findall(r"^([\w.-]+==[^ ]+)", (ROOT / name).read_text(), re.MULTILINE)) for name in LOCKS
    )
    assert runtime < development


def test_the_locks_hold_every_dependency_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for name, wanted in zip(LOCKS, (project["dependencies"], project["optional-dependencies"]["dev"]), strict=True):
        locked = {line.split("==")[0] for line in (ROOT / name).read_text().splitlines() if re.match(r"\w", line)}
        assert {re.match(r"[\w.-]+", wish).group().lower() for wish in wanted} <= locked  # type: ignore[union-attr]


def test_the_version_that_is_printed_is_the_projects() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == VERSION


def test_every_target_of_the_makefile_is_listed_by_help() -> None:
    text = (ROOT / "Makefile").read_text()
    targets = re.search(r"^\.PHONY: (.+)$", text, re.MULTILINE)
    assert targets
    listed = subprocess.run(["make", "help"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert re.findall(r"make ([a-z-]+) ", listed) == targets[1].split()


# Tests that can fail


def test_every_test_asserts_something() -> None:
    idle = [
        f"{path.relative_to(ROOT)}:{function.lineno} {function.name}"
        for path in modules_of_tests()
        for function in functions_of(ast.parse(path.read_text()))
        if not checks_something(function)
    ]
    assert idle == []


def test_no_test_is_skipped_mocked_or_put_to_sleep() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for path in modules_of_tests()
        for line, name in forbidden_in(ast.parse(path.read_text()))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "verdict"),
    [
        ("def test_a():\n    pass", False),
        ("def test_a():\n    print(1 == 2)", False),
        ("def test_a():\n    assert f()", True),
        ("def test_a():\n    with pytest.raises(ValueError):\n        f()", True),
        ("async def test_a():\n    await check_order(1)", True),
        ("def test_a():\n    subprocess.run(argv, check=True)", True),
        ("class TestA:\n    def test_a(self):\n        self.run()", False),
    ],
)
def test_the_search_for_idle_tests_finds_them(source: str, verdict: bool) -> None:
    assert [checks_something(function) for function in functions_of(ast.parse(source))] == [verdict]


@pytest.mark.parametrize(
    "source",
    [
        "import pytest\npytest.skip('no engine')",
        "@pytest.mark.skipif(True, reason='')\ndef test_a(): assert 1",
        "@pytest.mark.xfail\ndef test_a(): assert 1",
        "docker = pytest.importorskip('docker')",
        "from unittest import mock",
        "from unittest.mock import patch",
        "from time import sleep",
        "import time\ntime.sleep(1)",
    ],
)
def test_the_search_for_skips_mocks_and_sleeps_finds_them(source: str) -> None:
    assert list(forbidden_in(ast.parse(source)))


def modules_of_tests() -> list[Path]:
    """Python below tests/, without packages that are input."""
    names = [name for name in tracked() if name.startswith("tests/") and name.endswith(".py")]
    return [ROOT / name for name in names if not name.startswith(INPUT)]


def functions_of(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node


def checks_something(function: ast.AST) -> bool:
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in ("pytest.raises", "pytest.fail") or name.split(".")[-1].startswith(("assert_", "check_")):
                return True
            if any(word.arg == "check" and ast.unparse(word.value) == "True" for word in node.keywords):
                return True
    return False


FORBIDDEN = re.compile(
    r"pytest\.(mark\.)?(skip\w*|xfail|importorskip)|unittest\.(skip\w*|mock)(\..*)?|mock\..*|time\.sleep|.*MagicMock"
)


def forbidden_in(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Skips, expected failures, mocks and sleeps, each with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute() | ast.Name():
                names = [ast.unparse(node)]
            case ast.Import():
                names = [alias.name for alias in node.names]
            case ast.ImportFrom():
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            case _:
                continue
        for name in names:
            if FORBIDDEN.fullmatch(name):
                yield node.lineno, name
