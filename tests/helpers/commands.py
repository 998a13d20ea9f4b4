"""`cloche` as a process: its answer, its streams, its signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Any

from engine.sandbox import probed
from engine.sandbox.policy import Runtime
from engine.sandbox.service import Sandbox
from engine.settings import Settings, load
from sandbox_images import store
from tests.helpers.sandbox import CACHE, wait_for

CLOCHE = Path(sys.executable).with_name("cloche")
EXAMPLES = Path(__file__).parents[2] / "examples"


def home_with_image(home: Path, *, host: str = "", runtime: Runtime = "runc") -> Path:
    """A home that holds the image which the tests built, without building or copying it, and in which the probe held before.

    The latter for the engine at `host` (the configured one), the runtime and a policy of default settings: see `as_if_probed`.
    """
    images = home / "images"
    images.mkdir(parents=True, mode=0o700)
    for path in (CACHE / "home" / "images").iterdir():
        if path.suffix in (".tar", ".json"):
            os.link(path, images / path.name)
    as_if_probed(Settings(home=home, docker_host=host or load().docker_host, runtime=runtime))
    return home


def as_if_probed(settings: Settings) -> None:
    """Write into the home what a probe that held leaves, so that not every test of jobs makes a hundred attempts first.

    For the runtime of the settings, which is runc where they say `auto`.

    Who can write the home can do this, and nobody else: there is no setting for it.
    """
    sandbox = Sandbox.from_settings(settings)
    image = store.current(settings.home)
    assert image is not None
    runtime: Runtime = "runsc" if settings.runtime == "runsc" else "runc"
    probed.remember(settings.home, probed.key_of(sandbox, runtime, image.image_id))
    sandbox.engine.close()


@dataclass(frozen=True)
class Answer:
    """Exit code and both streams of a finished command."""

    code: int
    stdout: str
    stderr: str

    @property
    def data(self) -> dict[str, Any]:
        """The one JSON object on stdout."""
        found = json.loads(self.stdout)
        assert isinstance(found, dict)
        return found

    @property
    def error(self) -> dict[str, Any]:
        """The error object of a command that failed with `--json`."""
        found = self.data["error"]
        assert isinstance(found, dict)
        return found


@dataclass(frozen=True)
class Commands:
    """Runs `cloche` in one home, without a terminal, without anything of the caller's environment, and leaving no cell waiting."""

    home: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    def env(self) -> dict[str, str]:
        """What the process gets."""
        kept = {name: os.environ[name] for name in ("PATH", "DOCKER_HOST", "HOME") if name in os.environ}
        ours = {"CLOCHE_HOME": str(self.home), "CLOCHE_RUNTIME": "runc", "CLOCHE_WARM_CELLS": "0"}
        return {**kept, **ours, **self.environment}

    def __call__(
        self, *words: str | Path, stdin: bytes = b"", cwd: Path | None = None, timeout_s: float = 120
    ) -> Answer:
        """Run one command to its end."""
        done = subprocess.run(
            [CLOCHE, *words], env=self.env(), input=stdin, cwd=cwd, capture_output=True, timeout=timeout_s, check=False
        )
        return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())

    def start(self, *words: str | Path, cwd: Path | None = None) -> subprocess.Popen[bytes]:
        """Start one command; the caller ends it."""
        return subprocess.Popen(
            [CLOCHE, *words],
            env=self.env(),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def runs(self) -> list[dict[str, Any]]:
        """The rows of `runs list`."""
        rows = self("runs", "list", "--json").data["runs"]
        assert isinstance(rows, list)
        return rows

    def wait_for_calls(self, least: int) -> str:
        """Wait until the newest run has this many completed calls; its id.

        From its journal: by the time a command has told, hundreds more are done, and a short run is over.
        """

        def newest() -> Path | None:
            # one that is being made has another name
            return max(self.home.glob("sessions/*/workflows/[!.]*"), key=lambda path: path.name, default=None)

        def is_so_far() -> bool:
            run = newest()
            return run is not None and (run / "journal.jsonl").read_bytes().count(b'"e":"call.completed"') >= least

        wait_for(is_so_far)
        found = newest()
        assert found is not None
        return found.name


def end(process: subprocess.Popen[bytes], *, number: int = signal.SIGINT) -> Answer:
    """Send a signal and wait for the end."""
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=120)
    return Answer(process.returncode, stdout.decode(), stderr.decode())


def package(root: Path, name: str, body: str, *, test: str = "", permissions: str = "") -> Path:
    """A package directory that keeps the contract: `body` is workflow.py, `test` is tests/test_workflow.py."""
    folder = root / name
    (folder / "helpers").mkdir(parents=True)
    (folder / "tests").mkdir()
    declared = f"\n[tool.cloche]\npermissions = [{permissions}]\n" if permissions else ""
    (folder / "pyproject.toml").write_text(
        f'[project]\nname = "{name}"\nversion = "1.0.0"\ndescription = "A package of a test."\nkeywords = ["test"]\n\n'
        f'[project.entry-points."cloche.workflows"]\n{name} = "workflows.{name}:{name}"\n{declared}',
        encoding="utf-8",
    )
    sections = "Purpose Input Output Effects Failure and cancellation Dependencies Tests Example"
    titles = ["Purpose", "Input", "Output", "Effects", "Failure and cancellation", "Dependencies", "Tests", "Example"]
    assert " ".join(titles) == sections
    (folder / "README.md").write_text(f"# {name}\n" + "".join(f"\n## {title}\n\nNone.\n" for title in titles))
    (folder / "__init__.py").write_text(f"from .workflow import {name}\n")
    (folder / "helpers" / "__init__.py").write_text("")
    (folder / "helpers" / "constant.py").write_text("ANSWER = 42\n")
    (folder / "workflow.py").write_text(dedent(body).lstrip("\n"))
    called = f"from ..workflow import {name}\n\n\ndef test_it_is_callable() -> None:\n    assert callable({name})\n"
    (folder / "tests" / "test_workflow.py").write_text(dedent(test).lstrip("\n") or called)
    return folder
