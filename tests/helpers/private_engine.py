"""A container engine of a test's own, which may be killed and started again without touching anybody else's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / ".ci" / "engine.py"


@dataclass
class PrivateEngine:
    """Started by the script that `make` uses; with gVisor if it is `second`, whose program `runsc` may name."""

    root: Path
    second: bool = False
    runsc: Path | None = None

    @property
    def host(self) -> str:
        """Its address, as in DOCKER_HOST."""
        return f"unix://{self.root}/docker.sock"

    def call(self, verb: str) -> None:
        """Have the script do something: `start`, `stop`."""
        inherited = {name: value for name, value in os.environ.items() if name != "DOCKER_HOST"}
        program = {} if self.runsc is None else {"CLOCHE_ENGINE_RUNSC": str(self.runsc)}
        subprocess.run(
            [sys.executable, str(SCRIPT), verb, *(["second"] if self.second else [])],
            env={**inherited, "CI": "true", "CLOCHE_ENGINE_ROOT": str(self.root), **program},
            check=True,
            capture_output=True,
            timeout=120,
        )

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the engine itself; containers and helper processes are not told."""
        os.kill(int(json.loads((self.root / "run" / "engine.json").read_text())["pid"]), number)


@contextmanager
def private_engine(*, gvisor: bool = False, runsc: Path | None = None) -> Iterator[PrivateEngine]:
    """Started, and gone afterwards with all it had. With `gvisor` it has the runtime `runsc`: the installed one, or this program."""
    engine = PrivateEngine(Path(tempfile.mkdtemp(prefix="ce-", dir="/tmp")), gvisor, runsc)
    try:
        engine.call("start")
        yield engine
    finally:
        engine.call("stop")
        subprocess.run(["rm", "-rf", "--one-file-system", str(engine.root)], check=True)
