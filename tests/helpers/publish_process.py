"""A publisher in a process of its own: `python -m tests.helpers.publish_process ROOT DIRECTORY POINT ACTION`.

At POINT of the commit it is killed (ACTION `kill`), or waits until the file ROOT/go exists (`wait`). Prints `published
<revision>`, or the code of the error. The gate's cells answer from a script that passes.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from engine.errors import ClocheError
from engine.gate.commit import Point
from tests.helpers.gate_cells import ScriptedCells
from tests.helpers.publishing import Publisher

WAIT_S = 20.0


def wait_for(path: Path) -> None:
    """Come back when `path` exists; give up after a while."""
    deadline = time.monotonic() + WAIT_S
    while not path.exists():
        if time.monotonic() > deadline:
            raise SystemExit(f"{path} did not appear")
        time.sleep(0.005)


def main(root: Path, directory: Path, point: str, action: str) -> None:
    def meet() -> None:
        (root / f"ready-{os.getpid()}").touch()
        wait_for(root / "go")

    def reached(now: Point) -> None:
        if now == point and action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)

    publisher = Publisher(root, ScriptedCells(before=meet if action == "wait" else lambda: None))
    try:
        print("published", publisher.publish(directory, replace=True, reached=reached).revision)
    except ClocheError as error:
        print(error.code)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4])
