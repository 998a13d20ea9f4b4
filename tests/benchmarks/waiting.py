"""The memory of a run that waits for a slow call without a cell: many of them in one process, and what some more of them add."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise

from engine.app import App
from tests.benchmarks.figures import Figure, Target, alone
from tests.benchmarks.ledger import ROOT

TARGET = Target("median", 100_000)
FIRST, MORE, TIMES = 12, 20, 3
"""The first ones load what all need; then so many more, so often."""


def measure(app: App) -> list[Figure]:
    """A process of its own holds the runs, so that nothing else is in its memory."""
    argv = [sys.executable, "-m", "tests.benchmarks.waiting_runs", str(app.settings.home)]
    levels = [FIRST + MORE * number for number in range(TIMES + 1)]
    done = subprocess.run([*argv, *map(str, levels)], cwd=ROOT, check=True, stdout=subprocess.PIPE)
    return [alone("memory of a waiting run", measured=each(levels, json.loads(done.stdout)), unit="KB", target=TARGET)]


def each(levels: list[int], bytes_at: list[int]) -> list[float]:
    """What one more run took, from each level to the next."""
    points = zip(levels, bytes_at, strict=True)
    return [(memory - before) / (runs - fewer) for (fewer, before), (runs, memory) in pairwise(points)]
