"""The run's clock and randomness are what every loaded module holds, in an interpreter of its own that starts as a cell's does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

GUEST = Path(__file__).parents[2] / "sandbox_images" / "guest"

PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from types import ModuleType
import os, time
from cloche_guest import world

def module(name):
    made = ModuleType(name)
    made.now, made.bytes, made.other = time.time, os.urandom, os.getpid
    sys.modules[name] = made
    return made

class Clock:
    at = 12.5
    def monotonic(self):
        return 3.0

before = module("before")
world.look_around()
after = module("after")
seed = world.Seed()
seed.hex = "00" * 16
world.install(seed=seed, clock=Clock())
for holder in (before, after):
    assert holder.now() == 12.5, holder
    assert holder.other is os.getpid
assert time.monotonic() == time.perf_counter() == 3.0
drawn = [before.bytes(4), after.bytes(4), os.urandom(4)]
assert len(set(drawn)) == 3
print(b"".join(drawn).hex())
"""


def test_modules_from_before_and_after_the_look_around_get_the_runs_clock_and_randomness() -> None:
    argv = [sys.executable, "-s", "-P", "-S", "-B", "-X", "utf8", "-c", PROGRAM, str(GUEST)]
    told = [subprocess.run(argv, capture_output=True, text=True, timeout=60) for _ in range(2)]
    assert [(one.returncode, one.stderr) for one in told] == [(0, "")] * 2
    assert told[0].stdout == told[1].stdout != ""
