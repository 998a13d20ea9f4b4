"""Packages written to disk, and everything publishing needs around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import anyio

from engine.catalog.repos import Catalog
from engine.catalog.snapshots import Snapshots
from engine.gate.commit import Point
from engine.gate.publish import Services, publish
from engine.package.contract import PublishedRevision
from engine.proc import run as run_process
from engine.settings import Settings, tool_environment
from tests.helpers.gate_cells import ScriptedCells

README = """# {name}

## Purpose
Says something.

## Input
Any text.

## Output
Text.

## Effects
None.

## Failure and cancellation
Raises.

## Dependencies
None.

## Tests
One.

## Example
`{name}("x")`
"""


def package_files(
    name: str,
    *,
    imports: Sequence[str] = (),
    version: str = "1.0",
    body: str = 'return f"{task}!"',
    permissions: Sequence[str] | None = None,
    tests: str = "",
    head: str = "",
) -> dict[str, str]:
    """A small valid package; `imports` are workflows it depends on, `body` the last line of its entry, `head` its first."""
    declared = "" if permissions is None else f"\n[tool.cloche]\npermissions = {list(permissions)!r}\n"
    lines = "".join(f"from workflows.{other} import {other}\n" for other in imports)
    default_tests = f'from workflows.{name} import {name}\n\n\ndef test_says():\n    assert {name}("a") == "a!"\n'
    return {
        "pyproject.toml": f'[project]\nname = "{name}"\nversion = "{version}"\ndescription = "Says {name}."\n'
        f'keywords = ["say"]\n\n[project.entry-points."cloche.workflows"]\n{name} = "workflows.{name}:{name}"\n{declared}',
        "README.md": README.format(name=name),
        "__init__.py": f"from .workflow import {name}\n",
        "workflow.py": f"{head}{lines}from .steps.spoken import spoken\n\n\ndef {name}(task):\n    spoken(task)\n    {body}\n",
        "steps/__init__.py": "",
        "steps/spoken.py": "def spoken(text):\n    return text\n",
        "tests/test_workflow.py": tests or default_tests,
    }


def write_package(root: Path, name: str, files: Mapping[str, str]) -> Path:
    """Make `root/name` hold exactly these files."""
    directory = root / name
    for old in directory.rglob("*") if directory.exists() else ():
        if old.is_file():
            old.unlink()
    for path, text in files.items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return directory


@dataclass
class TickingClock:
    """A clock that a test moves."""

    at: datetime = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
    seconds: float = 0.0

    def now(self) -> datetime:
        return self.at

    def monotonic_s(self) -> float:
        return self.seconds


class Publisher:
    """One home with a catalog, and cells that answer from scripts."""

    def __init__(self, root: Path, cells: ScriptedCells | None = None) -> None:
        self.home = root / "home"
        self.sources = root / "candidates"
        self.catalog = Catalog(self.home)
        self.cells = cells or ScriptedCells()
        self.services = Services(
            catalog=self.catalog,
            snapshots=Snapshots(self.home, self.catalog),
            open_cell=self.cells,
            settings=Settings(home=self.home),
            clock=TickingClock(),
        )

    def write(self, name: str, **options: object) -> Path:
        """Write the package `name` (see `package_files`) and give its directory."""
        return write_package(self.sources, name, package_files(name, **options))  # type: ignore[arg-type]

    def publish(
        self,
        directory: Path,
        *,
        replace: bool = False,
        repin: bool = False,
        reached: Callable[[Point], None] = lambda _: None,
    ) -> PublishedRevision:
        """Publish what lies in a directory."""

        async def run() -> PublishedRevision:
            return await publish(directory, services=self.services, replace=replace, repin=repin, reached=reached)

        return anyio.run(run)

    def put(self, name: str, *, replace: bool = False, repin: bool = False, **options: object) -> PublishedRevision:
        """Write and publish in one go."""
        return self.publish(self.write(name, **options), replace=replace, repin=repin)

    def project(self, name: str) -> Path:
        """Where the repository of a published package lies."""
        return self.home / "catalog" / "workflow" / name

    def everything(self, name: str) -> dict[str, bytes]:
        """All that a failed publication must leave as it was: refs, reachable objects, index, work tree, nothing aside."""
        project = self.project(name)
        found = {
            str(path.relative_to(project)): path.read_bytes() if path.is_file() else b"folder"
            for path in project.rglob("*")
            if ".git" not in path.relative_to(project).parts
        }
        for argv in (["for-each-ref"], ["rev-list", "--all", "--objects"], ["ls-files", "--stage"], ["status", "-s"]):
            done = run_process(["git", "--no-optional-locks", *argv], env=tool_environment(), cwd=project, check=False)
            found[" ".join(argv)] = done.stdout
        return found

    def aside(self) -> list[str]:
        """Names of what lies hidden among the projects, and of intents."""
        projects = self.catalog.projects
        hidden = [path.name for path in projects.glob(".*") if path.name not in (".locks", ".intents")]
        return sorted(hidden + [path.name for path in projects.glob(".intents/*")])
