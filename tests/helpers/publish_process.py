"""A publisher in a process of its own, stopped at a named point.

`killed_at` runs one that is killed there, as by a power cut. `PublisherProcess` runs one that says `ready` inside the gate and
goes on when told, so that several meet before any commits.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from engine.errors import ClocheError
from engine.gate.commit import Point
from tests.helpers.gate_cells import ScriptedCells
from tests.helpers.publishing import Publisher

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 60


class PublisherProcess:
    """A child that publishes DIRECTORY into the home below `root` with `replace`."""

    def __init__(self, root: Path, directory: Path, *, point: str = "", action: str = "meet") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.helpers.publish_process", str(root), str(directory), point, action],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
        )

    def wait_until_ready(self) -> None:
        """Come back when it is inside the gate."""
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def go(self) -> str:
        """Let it go on to its end; gives what it printed last (`published <revision>` or an error code)."""
        return self.process.communicate("go\n", timeout=TIMEOUT_S)[0].strip()


def killed_at(point: Point, root: Path, directory: Path) -> None:
    """Publish in a process that is killed at `point`."""
    child = PublisherProcess(root, directory, point=point, action="kill")
    printed = child.go()
    assert child.process.returncode == -signal.SIGKILL, f"it was not stopped at {point}: {printed}"


def main(root: Path, directory: Path, point: str, action: str) -> None:
    """Publish, and print how it went."""

    def meet() -> None:
        if publisher.cells.opened == 0:
            print("ready", flush=True)
            sys.stdin.readline()

    def reached(now: Point) -> None:
        if now == point and action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)

    publisher = Publisher(root, ScriptedCells(before=meet if action == "meet" else lambda: None))
    try:
        print("published", publisher.publish(directory, replace=True, reached=reached).revision)
    except ClocheError as error:
        print(error.code)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4])
