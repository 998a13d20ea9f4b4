"""Crashes of runs in real cells: of the process that executes one, of its cell, of the container engine."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.clock import SystemClock
from engine.sandbox import labels
from engine.sandbox.docker import Engine
from engine.sandbox.engine_errors import ContainerGone
from engine.sandbox.policy import Runtime
from engine.sandbox.service import Sandbox
from engine.settings import Settings
from tests.helpers.chaos import Stage, Trial
from tests.helpers.commands import home_with_image
from tests.helpers.crash_programs import PACKAGES, package
from tests.helpers.crash_server import CrashServer
from tests.helpers.ledger import Ledger
from tests.helpers.private_engine import PrivateEngine
from tests.helpers.sandbox import alive, containers_of, loaded_image, wait_for

Victim = Literal["orchestrator", "cell", "engine"]

CELL_LIVES = ("cell.started", "cell.finishing")
"""From the first of these moments to before the last one there are processes of a cell to be killed."""


@dataclass
class RealStage:
    """A stage with real cells, on an engine that may be killed when it is `private`."""

    stage: Stage
    sandbox: Sandbox
    private: PrivateEngine | None = None

    def crash(self, victim: Victim, trial: Trial, point: str, nth: int) -> bool:
        """One generation in which the victim is killed at a moment; False when there was nothing to kill, or no such moment."""
        match victim:
            case "orchestrator":
                return trial.kill_at(point, nth)
            case "cell":
                return self._kill_cell(trial, point, nth)
            case "engine":
                return self._kill_engine(trial, point, nth)

    def _kill_cell(self, trial: Trial, point: str, nth: int) -> bool:
        if not trial.stop_at(point, nth):
            return False
        killed = self._kill_now("cell")
        trial.go_on()
        trial.kills += killed
        return killed

    def _kill_engine(self, trial: Trial, point: str, nth: int) -> bool:
        assert self.private is not None, "an engine that others use is never killed"
        if not trial.stop_at(point, nth):
            return False
        self._kill_now("engine")
        trial.kills += 1
        trial.go_on()
        self.private.call("start")
        return True

    def crash_after(self, victim: Victim, trial: Trial, seconds: float) -> bool:
        """One generation whose victim is killed so many seconds after its start; False when there was nothing to kill."""
        if victim == "orchestrator":
            return trial.kill_after(seconds)
        trial.start()
        killed = self.stage.server.wait(seconds) is None and self._kill_now(victim)
        while self.stage.server.pid:
            assert self.stage.server.wait(90) == "ended"
        if victim == "engine" and killed and self.private is not None:
            self.private.call("start")
        trial.kills += killed
        trial.look()
        return killed

    def _kill_now(self, victim: Victim) -> bool:
        if victim == "engine":
            assert self.private is not None, "an engine that others use is never killed"
            self.private.signal(signal.SIGKILL)
            return True
        pids = self.cell_pids()
        for pid in pids:
            kill_and_wait(pid)
        return bool(pids)

    def cell_pids(self) -> list[int]:
        """First processes of the cells of this home, as the machine sees them."""
        found = []
        for container in self.sandbox.engine.containers({labels.HOME: self.sandbox.home_id}):
            with suppress(ContainerGone):
                found.append(int(self.sandbox.engine.inspect(container.id)["State"]["Pid"]))
        return [pid for pid in found if pid]

    def check_nothing_left(self, *, reap: bool = False) -> None:
        """Neither a container nor a cell's directory of this home; `reap`: once the next command has looked."""
        if reap:
            self.sandbox.reap()
        assert containers_of(self.sandbox) == []
        # one without a record may be in the making, and is left alone for a minute
        directories = (self.sandbox.settings.home / "cells").iterdir()
        assert [path.name for path in directories if (path / "cell.json").exists()] == []


def kill_and_wait(pid: int) -> None:
    """SIGKILL, and see it gone; it may have gone by itself."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not alive(pid))


@contextmanager
def real_stage(
    root: Path,
    host: str,
    *,
    private: PrivateEngine | None = None,
    programs: tuple[str, ...] = tuple(PACKAGES),
    runtime: Runtime = "runc",
) -> Iterator[RealStage]:
    """In a new home below `root`, with the current image, on the engine at `host`, in cells of this runtime."""
    client = Engine(host, timeout_s=60)
    loaded_image(client)
    home = home_with_image(root / "home", host=host, runtime=runtime)
    sandbox = Sandbox(Settings(home=home, docker_host=host, runtime=runtime), SystemClock(), client)
    snapshots = {name: package(root / "packages", name) for name in programs}
    with Ledger() as ledger, CrashServer() as server:
        # only an engine that is killed keeps a call waiting; one that others keep busy may take seconds
        patience_s = 5 if private else 60
        stage = Stage(
            home, server, ledger, engine=host, runtime=runtime, snapshots=snapshots, engine_timeout_s=patience_s
        )
        yield RealStage(stage, sandbox, private)
    client.close()


def one_of_each(moments: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Every named moment once, in the middle of its occurrences."""
    found: dict[str, list[int]] = {}
    for name, nth in moments:
        found.setdefault(name, []).append(nth)
    return [(name, numbers[len(numbers) // 2]) for name, numbers in found.items()]


def while_a_cell_lives(moments: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Those at which there is a process of a cell; without writes of state.json, which come when it is time."""
    names = [name for name, _ in moments]
    first, last = (names.index(name) for name in CELL_LIVES)
    return [moment for moment in moments[first:last] if not moment[0].startswith("file.")]
