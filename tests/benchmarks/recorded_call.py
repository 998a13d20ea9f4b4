"""One recorded call across the cell boundary, beside what its record must cost: two appends that are on disk."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from engine.app import App
from tests.benchmarks.figures import Figure, Target, compare, difference_quotients
from tests.benchmarks.house import CALLS
from tests.benchmarks.one_shot import run_once
from tests.benchmarks.rounds import interleaved

NAME = "recorded call"
TARGET = Target("ratio", 2.5)
FEW, MANY = 50, 550
LINE = b"x" * 199 + b"\n"
"""About as long as the journal's lines."""


def measure(app: App, *, root: Path, rounds: int) -> list[Figure]:
    """Calls of `now()` in one run: what 500 more of them add, divided by 500."""
    few, many, pairs = interleaved(
        partial(run_once, app, CALLS, str(FEW)),
        partial(run_once, app, CALLS, str(MANY)),
        partial(_pairs, root / "appended", MANY - FEW),
        rounds=rounds,
    )
    steps = MANY - FEW
    return [
        compare(
            NAME,
            measured=difference_quotients(few, many, steps=steps),
            baseline="two fsynced appends of 200 bytes",
            baselines=[seconds / steps for seconds in pairs],
            unit="µs",
            target=TARGET,
        )
    ]


def _pairs(path: Path, count: int) -> None:
    """Append and fsync twice, `count` times, on the journal's file system."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        for _ in range(2 * count):
            os.write(descriptor, LINE)
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
