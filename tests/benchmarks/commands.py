"""A whole `cloche workflows run` of a trivial package, and a gate, with a cell that waits beside one that has to be started."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import anyio

from engine.app import App
from engine.sandbox.policy import Kind
from tests.benchmarks.figures import Figure, compare
from tests.benchmarks.house import TRIVIAL, environ_of
from tests.benchmarks.ledger import ROOT
from tests.benchmarks.rounds import Told, interleaved, timed
from tests.benchmarks.waiting_cells import settle, with_pool
from tests.helpers.publishing import package_files, write_package

IMPORTS = "import cli.app, engine.cells, engine.run.lifecycle, engine.agents; cli.app.tree()"
THREE_TESTS = """from cloche.testing import script
from workflows.bench_three import bench_three


def test_one():
    with script():
        assert bench_three("a") == "a!"


def test_two():
    with script():
        assert bench_three("") == "!"


def test_three():
    with script():
        assert bench_three("b").endswith("!")
"""


def measure(app: App, *, root: Path, rounds: int) -> list[Figure]:
    """The commands are processes of their own; what such a process leaves to another one afterwards is waited for and not counted."""
    with with_pool(app) as warm:
        fill = partial(_wait_for_one, warm, "run")
        in_waiting, in_new, imports, python = interleaved(
            partial(_command, app, {"CLOCHE_WARM_CELLS": "1"}, before=fill),
            partial(_command, app, {"CLOCHE_WARM_CELLS": "0"}),
            partial(_python, IMPORTS),
            partial(_python, "pass"),
            rounds=rounds,
        )
        _wait_for_one(warm, "run")
        files = package_files("bench_three") | {"tests/test_workflow.py": THREE_TESTS}
        package = write_package(root / "gated", "bench_three", files)
        gate, gate_cold = interleaved(partial(_gate, warm, package), partial(_gate, app, package), rounds=rounds)
    return [
        compare("workflows run, a cell waits", measured=in_waiting, baseline="a cell is started", baselines=in_new),
        compare("of it: starting and imports", measured=imports, baseline="python -c pass", baselines=python),
        compare("gate of three tests, a cell waits", measured=gate, baseline="cells are started", baselines=gate_cold),
    ]


def _command(app: App, more: Mapping[str, str], *, before: partial[None] | None = None) -> Told:
    if before is not None:
        before()
    cloche = Path(sys.executable).with_name("cloche")
    argv = [str(cloche), "workflows", "run", TRIVIAL, "x"]
    run = partial(subprocess.run, argv, env=environ_of(app.settings.home, **more), check=True, capture_output=True)
    return Told(timed(run))


def _wait_for_one(app: App, kind: Kind) -> None:
    """Until the process that the last command left behind has done its work; at first there is none, and this makes one."""
    until = time.monotonic() + 30
    while any(not one.idle for one in app.list_cells()):
        assert time.monotonic() < until
        threading.Event().wait(0.05)
    anyio.run(app.cells.keep_house, [kind])


def _python(source: str) -> None:
    subprocess.run([sys.executable, "-c", source], cwd=ROOT, check=True)


def _gate(app: App, package: Path) -> Told:
    if app.sandbox.keeper is not None:
        settle(app)
        anyio.run(app.cells.keep_house, ["gate"])
    return Told(timed(partial(anyio.run, app.test, package)))
