"""How long the command line takes before it does anything."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

from tests.benchmarks.figures import Figure, Target, compare
from tests.benchmarks.rounds import interleaved

TARGET = Target("median", 0.150)


def measure(*, rounds: int) -> list[Figure]:
    """`cloche --version`, beside the same interpreter doing nothing."""
    cloche = Path(sys.executable).with_name("cloche")
    ours, python = interleaved(
        partial(_run, str(cloche), "--version"), partial(_run, sys.executable, "-c", "pass"), rounds=rounds, warm=2
    )
    return [compare("cloche --version", measured=ours, baseline="python -c pass", baselines=python, target=TARGET)]


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
