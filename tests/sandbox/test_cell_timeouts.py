"""Runs that time out, many of them: at the moment at which each returns, nothing of it is left anywhere on the machine."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from engine.errors import CellLost
from engine.sandbox import remains, uids
from engine.sandbox.cell import Cell
from engine.sandbox.cgroup import directories_of
from engine.sandbox.docker import Engine
from engine.sandbox.frames import End
from engine.sandbox.outcome import Cause
from engine.sandbox.service import Sandbox
from tests.helpers.sandbox import running, snapshot

pytestmark = [pytest.mark.sandbox, pytest.mark.anyio, pytest.mark.both_runtimes]

RUNS = {"runc": 200, "runsc": 8}
"""A cell of gVisor takes several times as long; what is left on the machine by chance shows in fewer."""

AT_ONCE = 4

ENDLESS = """
    import os

    def sample(task):
        os.fork()
        while True:
            pass
"""


@dataclass(frozen=True)
class Traces:
    """Where on this machine a living cell is to be seen."""

    cell_id: str
    container: str
    uid: int
    directory: Path
    cgroups: tuple[Path, ...]
    mounts: tuple[str, ...]

    @classmethod
    def of(cls, cell: Cell, sandbox: Sandbox) -> Traces:
        found = sandbox.engine.inspect(cell.container)
        pid = int(found["State"]["Pid"])
        cgroups = directories_of(pid, cell.container)
        merged = (found.get("GraphDriver") or {}).get("Data", {}).get("MergedDir", "")
        mounts = tuple(name for name in (cell.container, merged) if name and name in mount_table())
        directory = sandbox.settings.home / "cells" / cell.cell_id
        return cls(cell.cell_id, cell.container, cell.uid, directory, cgroups, mounts)

    def left(self, engine: Engine) -> list[str]:
        """What of them is still there."""
        claims = uid_file(self.uid).read_text()
        mounted = mount_table()
        seen = {
            "container": engine.exists(self.container),
            "directory": self.directory.exists(),
            "process": bool(remains.find({self.container})),
            "claim": self.cell_id in claims,
            "cgroup": any(path.exists() for path in self.cgroups),
            "mount": any(name in mounted for name in self.mounts),
        }
        return [name for name, is_there in seen.items() if is_there]


def mount_table() -> str:
    return Path("/proc/self/mountinfo").read_text()


def uid_file(uid: int) -> Path:
    path = uids.lock_of(uid)
    assert path is not None
    return path


async def time_out(sandbox: Sandbox, image_id: str, package: Path) -> list[str]:
    """One run up to its deadline; what is left of it when its end is told."""
    async with running(sandbox, image_id, package, deadline_s=0.1) as cell:
        traces = Traces.of(cell, sandbox)
        assert traces.left(sandbox.engine) != []
        with suppress(CellLost):  # on a busy machine the host's deadline may come before the supervisor's word
            while not isinstance(await cell.receive(), End):
                pass
        end = await cell.finish()
        left = traces.left(sandbox.engine)
    assert (end.cause, end.left_behind) == (Cause.DEADLINE, False)
    return left


async def test_runs_that_time_out_one_after_the_other_leave_nothing_when_each_returns(
    sandbox: Sandbox, image_id: str, tmp_path: Path
) -> None:
    package = snapshot(tmp_path / "s", ENDLESS)
    left: list[list[str]] = []
    runs = RUNS[sandbox.settings.runtime]
    numbers = iter(range(runs))

    async def one_after_the_other() -> None:
        for _ in numbers:
            left.append(await time_out(sandbox, image_id, package))

    async with anyio.create_task_group() as group:
        for _ in range(AT_ONCE):
            group.start_soon(one_after_the_other)
    assert left == [[]] * runs
    assert sandbox.list_cells() == []


async def test_every_trace_of_a_living_cell_is_looked_for(sandbox: Sandbox, image_id: str, tmp_path: Path) -> None:
    async with running(sandbox, image_id, snapshot(tmp_path / "s", ENDLESS)) as cell:
        traces = Traces.of(cell, sandbox)
        assert traces.left(sandbox.engine) == ["container", "directory", "process", "claim", "cgroup", "mount"]
