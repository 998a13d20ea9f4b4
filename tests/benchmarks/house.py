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
from engine.settings import load
from sandbox_images import store
from tests.helpers.publishing import package_files, write_package
from tests.helpers.sandbox import CACHE, nothing_left

TRIVIAL = "bench_trivial"
CALLS = "bench_calls"

_CALLS = """from cloche import now

from .steps.spoken import spoken


def bench_calls(task):
    for _ in range(int(task)):
        now()
    return spoken(task)
"""
_CALLS_TEST = """from cloche.testing import script
from workflows.bench_calls import bench_calls


def test_gives_the_task_back():
    with script():
        assert bench_calls("1") == "1"
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
    """An application with the cell image loaded, runc as its runtime, and the packages `TRIVIAL` and `CALLS` published."""
    image = store.ensure_built(CACHE / "home", cache=CACHE / "debs", fall_back=True)
    environ = {
        "CLOCHE_HOME": str(root / "home"),
        "CLOCHE_RUNTIME": "runc",
        "DOCKER_HOST": os.environ.get("DOCKER_HOST", ""),
    }
    with open_app(load(environ)) as app, nothing_left(app.sandbox):
        anyio.run(app.images.adopt, image.path)
        calls = {**package_files(CALLS), "workflow.py": _CALLS, "tests/test_workflow.py": _CALLS_TEST}
        for name, files in ((TRIVIAL, package_files(TRIVIAL)), (CALLS, calls)):
            anyio.run(app.publish, write_package(root / "candidates", name, files))
        yield app
