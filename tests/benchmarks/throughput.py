"""One-shot runs by two workers at a time, beside two that use the engine's API alone: what a machine gets done."""

from __future__ import annotations

import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from engine.app import App
from tests.benchmarks.figures import Figure, Target, compare
from tests.benchmarks.ledger import ROOT
from tests.benchmarks.rounds import Told, interleaved

WORKERS, RUNS = 2, 12
TARGET = Target("ratio", 1 / 1.1)
"""Seconds a run, so that 1.1 times as many runs a second is a ratio of 0.91."""


def measure(app: App, *, root: Path, rounds: int) -> list[Figure]:
    """Seconds a run. Each worker is a process; from the word "go" until the last run has ended and nothing used is left."""
    ours, raw = interleaved(
        partial(_together, "runs", app, root), partial(_together, "raw", app, root), rounds=rounds, warm=1
    )
    name = f"a run, {WORKERS} workers"
    return [compare(name, measured=ours, baseline="raw engine API, as many workers", baselines=raw, target=TARGET)]


def _together(kind: str, app: App, root: Path) -> Told:
    argv = [sys.executable, "-m", "tests.benchmarks.throughput_worker", kind, str(app.settings.home), str(RUNS)]
    workers = [
        subprocess.Popen(
            [*argv, str(root / f"{kind}-{number}")], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for number in range(WORKERS)
    ]
    try:
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == b"ready\n"
        begun = time.perf_counter()
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write(b"go\n")
            worker.stdin.flush()
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == b"done\n"
        took = time.perf_counter() - begun
    finally:
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.close()
    assert [worker.wait(60) for worker in workers] == [0] * WORKERS
    return Told(took / (WORKERS * RUNS))
