"""Executions of a run in processes of their own, which end or stop themselves at a named moment.

`CrashServer` starts `tests.helpers.crash_process`, which has everything imported and forks once per job, so that a crash costs
milliseconds and no test is forked. Beside the points of `engine.points` a process knows moments around what the run loop is given:
handlers, cells and the proof that a cell is gone (`MOMENTS`).
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic
from typing import Literal, Self, get_args

from engine import points
from engine.sandbox.policy import Runtime

ROOT = Path(__file__).parents[2]

Moment = Literal[
    "cell.opening",
    "cell.delivered",
    "effect.before",
    "effect.done",
    "reply.before",
    "reply.sent",
    "cell.finishing",
    "cell.finished",
    "gone.before",
    "gone.proven",
]
MOMENTS = (*get_args(points.Point), *get_args(Moment))


@dataclass(frozen=True)
class Job:
    """One generation of a run, created when there is none of this id; or a person's `cancel`, or their decision about a call.

    `act` happens when `point` comes the `nth` time. `snapshot`: the package's, for a real cell; empty: a scripted one plays the
    program of that name, by a clock that stands still unless `ticks`. `trace`: a file that gets every moment that comes.
    `pause_s`: see `Noted`. `engine` is the address of the container engine, whose cells use `runtime`.
    """

    home: str
    run_id: str
    program: str
    ledger: str
    snapshot: str = ""
    engine: str = ""
    runtime: Runtime = "runc"
    verb: Literal["drive", "cancel", "decide"] = "drive"
    act: Literal["", "kill", "stop"] = ""
    point: str = ""
    nth: int = 1
    trace: str = ""
    pause_s: float = 0.002
    suspend_after_s: float = 120.0
    engine_timeout_s: float = 20.0
    ticks: bool = False


class CrashServer:
    """One job at a time. `ended` and `stopped` are the two words that `wait` gives; None when neither came in time."""

    def __init__(self) -> None:
        self.pid = 0
        self.status = 0
        self._heard = b""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.helpers.crash_process"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._hear(60) == ["ready"]
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._process.kill()
        self._process.communicate()

    def start(self, job: Job) -> int:
        """Begin it; its process id."""
        assert not self.pid, "one job at a time"
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asdict(job)).encode() + b"\n")
        self._process.stdin.flush()
        heard = self._hear(60)
        assert heard
        self.pid = int(heard[1])
        return self.pid

    def wait(self, timeout_s: float = 120) -> Literal["ended", "stopped"] | None:
        """Until it stops itself or is gone; then `status` is its exit code, negative for a signal."""
        heard = self._hear(timeout_s)
        if heard is None:
            return None
        if heard[0] == "stopped":
            return "stopped"
        self.pid, self.status = 0, int(heard[1])
        return "ended"

    def run(self, job: Job, *, timeout_s: float = 120) -> int:
        """A job from start to end; its exit code."""
        self.start(job)
        assert self.wait(timeout_s) == "ended", f"{job} did not end"
        return self.status

    def go_on(self) -> None:
        """Let a stopped one go on."""
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL, wherever it is, unless it has just ended; afterwards it is gone."""
        if self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            while self.wait() == "stopped":
                continue

    def _hear(self, timeout_s: float) -> list[str] | None:
        # unbuffered: what was read ahead would be invisible to select; half a line waits in _heard for the next call
        assert self._process.stdout is not None
        until = monotonic() + timeout_s
        while not self._heard.endswith(b"\n"):
            left = max(0.0, until - monotonic())
            if not select.select([self._process.stdout], [], [], left)[0]:
                return None
            piece = os.read(self._process.stdout.fileno(), 1)
            assert piece, "the server of crashing processes is gone"
            self._heard += piece
        line, self._heard = self._heard, b""
        return line.decode().split()
