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
    """Started by the script that `make` uses."""

    root: Path

    @property
    def host(self) -> str:
        """Its address, as in DOCKER_HOST."""
        return f"unix://{self.root}/docker.sock"

    def call(self, verb: str) -> None:
        """Have the script do something: `start`, `stop`."""
        inherited = {name: value for name, value in os.environ.items() if name != "DOCKER_HOST"}
        subprocess.run(
            [sys.executable, str(SCRIPT), verb],
            env={**inherited, "CLOCHE_ENGINE_ROOT": str(self.root)},
            check=True,
            capture_output=True,
            timeout=120,
        )

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the engine itself; containers and helper processes are not told."""
        os.kill(int(json.loads((self.root / "run" / "engine.json").read_text())["pid"]), number)


@contextmanager
def private_engine() -> Iterator[PrivateEngine]:
    """Started, and gone afterwards with all it had."""
    engine = PrivateEngine(Path(tempfile.mkdtemp(prefix="ce-", dir="/tmp")))
    try:
        engine.call("start")
        yield engine
    finally:
        engine.call("stop")
        subprocess.run(["rm", "-rf", "--one-file-system", str(engine.root)], check=True)
