"""A throw-away home for the benchmarks: a real application on the real engine, with published packages.

The home lies in the checkout's `.cache/`, so that its files are on a disk and not in memory, and is removed at the end; a
container that is left behind is a failure of the benchmark.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio

from engine.app import App, open_app
from engine.files import make_directory, remove_tree
from engine.settings import Settings, load
from sandbox_images import store
from tests.helpers.publishing import package_files, write_package
from tests.helpers.sandbox import CACHE, nothing_left

TRIVIAL = "bench_trivial"
CALLS = "bench_calls"
REPLAYED = "bench_replayed"
MIXED = "bench_mixed"
EFFECTS = "bench_effects"
STAYING = "bench_staying"

BODIES = {
    CALLS: "for _ in range(int(task)):\n        now()",
    REPLAYED: "for _ in range(int(task)):\n        now()\n    random()",
    MIXED: (
        'for number in range(int(task)):\n        with phase("round"):\n            now()\n            random()\n'
        '            emit({"number": number})\n        glob("*.none")'
    ),
    STAYING: 'while task == "stay":\n        pass',
    EFFECTS: "for number in range(int(task)):\n        emit(number)",
}
"""What each package does with the number that is its task, before it gives that back."""

_WORKFLOW = """from cloche import emit, now, phase, random
from cloche.programs import glob

from .steps.spoken import spoken


def {name}(task):
    {body}
    return spoken(task)
"""
_TEST = """from cloche.testing import script
from workflows.{name} import {name}


def test_gives_the_task_back():
    with script(workspace={{}}):
        assert {name}("1") == "1"
"""


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory on the checkout's disk, gone afterwards."""
    path = Path(tempfile.mkdtemp(prefix="bench-", dir=make_directory(CACHE)))
    try:
        yield path
    finally:
        remove_tree(path)


@contextmanager
def published(root: Path) -> Iterator[App]:
    """An application with the cell image loaded, runc as its runtime, and the package `TRIVIAL` and those of `BODIES` published."""
    image = store.ensure_built(CACHE / "home", cache=CACHE / "debs", fall_back=True)
    with open_app(settings_of(root / "home")) as app, nothing_left(app.sandbox):
        anyio.run(app.images.adopt, image.path)
        for name in (TRIVIAL, *BODIES):
            anyio.run(app.publish, write_package(root / "candidates", name, _files(name)))
        yield app


def settings_of(home: Path, **environ: str) -> Settings:
    """Of such a home, for this process and others: runc, and nothing of the caller's environment but where the engine is."""
    return load(environ_of(home, **environ))


def environ_of(home: Path, **more: str) -> dict[str, str]:
    """The environment of a process that is to have these settings, with cells that wait turned off unless `more` turns them on."""
    kept = {name: os.environ[name] for name in ("PATH", "DOCKER_HOST", "HOME") if name in os.environ}
    return {**kept, "CLOCHE_HOME": str(home), "CLOCHE_RUNTIME": "runc", "CLOCHE_WARM_CELLS": "0", **more}


def _files(name: str) -> dict[str, str]:
    if name == TRIVIAL:
        return package_files(name)
    permissions = ["workspace.read"] if name == MIXED else None
    own = {
        "workflow.py": _WORKFLOW.format(name=name, body=BODIES[name]),
        "tests/test_workflow.py": _TEST.format(name=name),
    }
    return {**package_files(name, permissions=permissions), **own}
