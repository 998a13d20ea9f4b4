"""Both runtimes in tests: the engine of each, and which tests run under both.

A module or test marked `both_runtimes` runs once under runc, on the engine of the settings, and once under gVisor, on the second
engine that `make test` starts. Where that engine does not run there is nothing to run it on, which the header of the test run
says; in CI the tests are there all the same and fail. What runs under runc alone is marked `runc_only("why")`. A test's own mark
counts before that of its module, and every module here has one; docs/reference/runtimes.md is made of them.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from engine.errors import SandboxError
from engine.sandbox.docker import Engine
from engine.sandbox.policy import Runtime
from engine.settings import load

GVISOR_HOST = os.environ.get("CLOCHE_TEST_GVISOR_HOST") or "unix:///run/cloche-engine-gvisor/docker.sock"

LEAKING = """#!/bin/sh
for a; do shift; [ "$a" = --network=none ] || set -- "$@" "$a"; done
exec /usr/bin/runsc "$@"
"""


@cache
def tried() -> tuple[Runtime, ...]:
    """The runtimes that cells are tried under in this test run."""
    return ("runc", "runsc") if os.environ.get("CI") or gvisor_answers() else ("runc",)


def gvisor_answers() -> bool:
    """Whether the second engine is there."""
    engine = Engine(GVISOR_HOST, timeout_s=60)
    try:
        return "runsc" in engine.runtimes()
    except SandboxError:
        return False
    finally:
        engine.close()


def host_of(runtime: Runtime) -> str:
    """Address of the engine whose cells use this runtime."""
    return GVISOR_HOST if runtime == "runsc" else load().docker_host


def runtime_of(engine: Engine) -> Runtime:
    """What cells on this engine use: runsc on the second one or where CLOCHE_RUNTIME says so, else runc."""
    return "runsc" if engine.host == GVISOR_HOST or load().runtime == "runsc" else "runc"


def leaking_gvisor(directory: Path) -> Path:
    """A program for an engine's `runsc` whose starts fail and leave shim, gofer and sandbox behind, as one with a network does."""
    path = directory / "runsc"
    path.write_text(LEAKING)
    path.chmod(0o755)
    return path
