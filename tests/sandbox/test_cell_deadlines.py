"""Deadlines hold when everything around a cell dies, stops or freezes: the supervisor first, the host next, the reaper last."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import cycle
from pathlib import Path
from textwrap import dedent
from time import monotonic

import anyio
import pytest

from engine.clock import SystemClock
from engine.errors import CellLost
from engine.sandbox import remains
from engine.sandbox.cell import HOST_MARGIN_S, Cell
from engine.sandbox.docker import Engine
from engine.sandbox.frames import Ready
from engine.sandbox.launch import EXPIRY_MARGIN_S
from engine.sandbox.outcome import Cause
from engine.sandbox.service import Sandbox
from tests.helpers.raw_engine import ask_engine
from tests.helpers.sandbox import (
    alive,
    containers_of,
    end_process,
    running,
    snapshot,
    wait_for,
)

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.anyio,
    pytest.mark.runc_only(
        "the clocks are those of the host and of the supervisor; kills, stops and freezers are tried under both"
    ),
]

ROOT = Path(__file__).parents[2]

LONG_S = 3600.0
PROGRAMS = {
    "deaf": """
        import signal
        import time

        def sample(task):
            for number in range(1, 65):
                try:
                    signal.signal(number, signal.SIG_IGN)
                except (OSError, ValueError):
                    pass
            while True:
                time.sleep(3600)
    """,
    "forked": """
        import os
        import time

        def sample(task):
            for _ in range(20):
                if os.fork() == 0:
                    os.setsid()
                    if os.fork() == 0:
                        while True:
                            time.sleep(3600)
                    os._exit(0)
            while True:
                time.sleep(3600)
    """,
    "storm": """
        import os

        def sample(task):
            while True:
                try:
                    if os.fork() == 0:
                        os.setsid()
                except OSError:
                    pass
    """,
    "killer": """
        import os
        import signal

        def sample(task):
            while True:
                for number in (signal.SIGSTOP, signal.SIGKILL, signal.SIGINT, signal.SIGTERM):
                    try:
                        os.kill(1, number)
                    except OSError:
                        pass
    """,
}

OWNER = """
import sys
from pathlib import Path
import anyio
from engine.sandbox.cell import open_cell
from engine.sandbox.docker import Engine
from engine.sandbox.frames import Ready
from engine.sandbox.jobs import RunJob
from engine.settings import load
from tests.helpers.sandbox import make_sandbox, tell

async def own(sandbox, image_id, package, deadline_s, open_cells, all_open, count):
    async with open_cell(sandbox, image_id=image_id, kind="run", deadline_s=deadline_s) as cell:
        # deadlines count from the job: none may come before the last cell is there
        open_cells.append(cell)
        if len(open_cells) == count:
            all_open.set()
        await all_open.wait()
        await cell.deliver(RunJob("sample", None, "00" * 16, deadline_s), package)
        while not isinstance(await cell.receive(), Ready):
            pass
        print("ready", cell.cell_id, cell.container, cell.uid, flush=True)
        end = (await tell(cell)).ended
        print("ended", cell.cell_id, end.cause, end.left_behind, flush=True)

async def main(home, image_id, deadline_s, *packages):
    sandbox = make_sandbox(Path(home), Engine(load().docker_host))
    open_cells, all_open = [], anyio.Event()
    async with anyio.create_task_group() as group:
        for package in packages:
            job = (Path(package), float(deadline_s), open_cells, all_open, len(packages))
            group.start_soon(own, sandbox, image_id, *job)

anyio.run(main, *sys.argv[1:])
"""


@dataclass
class Owner:
    """Another process with cells of this home: by program, the cell's id, container and uid."""

    process: subprocess.Popen[str]
    cells: list[tuple[str, str, int]]

    def said(self) -> list[str]:
        """What it still had to say, once it has ended."""
        assert self.process.stdout is not None
        return self.process.stdout.read().splitlines()


@contextmanager
def owner(sandbox: Sandbox, image_id: str, *packages: Path, deadline_s: float) -> Iterator[Owner]:
    """Started, all its programs running; killed afterwards if it still lives."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(sandbox.settings.home), image_id, str(deadline_s), *map(str, packages)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "CLOCHE_HOME": str(sandbox.settings.home), "DOCKER_HOST": sandbox.engine.host},
    ) as process:
        assert process.stdout is not None
        made = Owner(process, [])
        try:
            while len(made.cells) < len(packages):
                word, *rest = process.stdout.readline().split() or [""]
                assert word == "ready", (word, rest)
                made.cells.append((rest[0], rest[1], int(rest[2])))
            yield made
        finally:
            process.kill()


def packages(root: Path, *names: str) -> list[Path]:
    return [snapshot(root / name, dedent(PROGRAMS[name])) for name in names]


def is_over(engine: Engine, container: str) -> bool:
    return not engine.inspect(container)["State"]["Running"]


async def until_ready(cell: Cell) -> None:
    while not isinstance(await cell.receive(), Ready):
        pass


async def read_on(cell: Cell) -> None:
    while True:
        await cell.receive()


async def lost(cell: Cell) -> None:
    with pytest.raises(CellLost), anyio.fail_after(60):
        await read_on(cell)


# the supervisor alone


@pytest.mark.both_runtimes
async def test_whatever_a_program_does_it_ends_at_its_deadline_without_an_owner(
    sandbox: Sandbox, engine: Engine, image_id: str, tmp_path: Path
) -> None:
    check_ends_at_deadline(sandbox, engine, image_id, tmp_path, signal.SIGKILL)


@pytest.mark.runc_only("10 s; a cell does not see whether its owner is dead or stopped")
async def test_whatever_a_program_does_it_ends_at_its_deadline_while_its_owner_is_stopped(
    sandbox: Sandbox, engine: Engine, image_id: str, tmp_path: Path
) -> None:
    check_ends_at_deadline(sandbox, engine, image_id, tmp_path, signal.SIGSTOP)


def check_ends_at_deadline(
    sandbox: Sandbox, engine: Engine, image_id: str, tmp_path: Path, number: signal.Signals
) -> None:
    """All programs at once, whose owner gets this signal."""
    with owner(sandbox, image_id, *packages(tmp_path, *PROGRAMS), deadline_s=3) as owned:
        os.kill(owned.process.pid, number)
        stopped = monotonic()
        for _, container, _ in owned.cells:
            wait_for(lambda container=container: is_over(engine, container), timeout_s=60)  # type: ignore[misc]
            assert all(is_shim(pid) for pid in remains.find({container}).get(container, ()))
        assert monotonic() - stopped < 60
    reaped = sandbox.reap()
    assert {(one.cell_id, one.problem) for one in reaped} == {(cell, "") for cell, _, _ in owned.cells}


def is_shim(pid: int) -> bool:
    try:
        return b"containerd-shim" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]
    except FileNotFoundError:
        return True


async def test_an_owner_that_was_stopped_over_the_deadline_and_goes_on_tells_it_and_leaves_nothing(
    sandbox: Sandbox, engine: Engine, image_id: str, tmp_path: Path
) -> None:
    with owner(sandbox, image_id, *packages(tmp_path, "deaf"), deadline_s=3) as owned:
        os.kill(owned.process.pid, signal.SIGSTOP)
        ((cell_id, container, _),) = owned.cells
        wait_for(lambda: is_over(engine, container), timeout_s=60)
        assert [one.owned for one in sandbox.list_cells()] == [True]
        assert sandbox.reap() == []
        os.kill(owned.process.pid, signal.SIGCONT)
        assert owned.process.wait(60) == 0
        assert owned.said() == [f"ended {cell_id} deadline False"]
    assert sandbox.list_cells() == []


# the host


@contextmanager
def frozen(engine: Engine, container: str, how: str) -> Iterator[None]:
    """Freezes a container: with the engine's knowledge, or behind its back."""
    if how == "by the engine":
        ask_engine(engine.host, "POST", f"/containers/{container}/pause")
        yield
        return
    pid = int(engine.inspect(container)["State"]["Pid"])
    lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    paths = {controllers: path for _, controllers, path in lines}
    root = Path("/sys/fs/cgroup")
    if "freezer" in paths:
        file, word = root / "freezer" / paths["freezer"].lstrip("/") / "freezer.state", "FROZEN"
    else:
        file, word = root / paths[""].lstrip("/") / "cgroup.freeze", "1"
    file.write_text(word)
    yield


@pytest.mark.parametrize("how", ["by the engine", "behind its back"])
async def test_a_frozen_cell_is_ended_by_the_host_at_its_own_deadline(
    sandbox: Sandbox, engine: Engine, image_id: str, tmp_path: Path, how: str
) -> None:
    (package,) = packages(tmp_path, "deaf")
    async with running(sandbox, image_id, package, deadline_s=3) as cell:
        first = int(engine.inspect(cell.container)["State"]["Pid"])
        await until_ready(cell)
        with frozen(engine, cell.container, how):
            await lost(cell)
            end = await cell.finish()
    # thawed, the supervisor may have the time for a last word, which is the same
    assert (end.cause, end.left_behind) == (Cause.DEADLINE, False)
    assert not alive(first)
    assert remains.find({cell.container}) == {}


@pytest.mark.both_runtimes
@pytest.mark.parametrize("how", ["by the engine", "behind its back"])
async def test_a_cell_that_is_frozen_when_its_owner_dies_is_ended_by_the_next_start(
    sandbox: Sandbox, engine: Engine, image_id: str, tmp_path: Path, how: str
) -> None:
    with owner(sandbox, image_id, *packages(tmp_path, "deaf"), deadline_s=LONG_S) as owned:
        ((cell_id, container, _),) = owned.cells
        with frozen(engine, container, how):
            end_process(owned.process.pid)
            owned.process.wait(60)
            (reaped,) = sandbox.reap()
    assert (reaped.cell_id, reaped.why, reaped.problem) == (cell_id, "owner_dead", "")
    assert remains.find({container}) == {}
    assert containers_of(sandbox) == []


@pytest.mark.both_runtimes
async def test_a_frozen_cell_that_is_cancelled_goes_as_any_other(
    sandbox: Sandbox, engine: Engine, image_id: str, tmp_path: Path
) -> None:
    (package,) = packages(tmp_path, "deaf")
    async with running(sandbox, image_id, package, deadline_s=LONG_S) as cell:
        await until_ready(cell)
        with frozen(engine, cell.container, "behind its back"):
            end = await cell.finish()
    assert (end.cause, end.left_behind) == (Cause.CANCELLED, False)


# the reaper


@dataclass(frozen=True)
class Moved(SystemClock):
    """A wall clock that somebody set; the monotonic one cannot be."""

    by: timedelta = timedelta()

    def now(self) -> datetime:
        return super().now() + self.by


async def test_an_expired_cell_of_a_stopped_owner_is_the_reapers_and_the_owner_goes_on_without_it(
    sandbox: Sandbox, engine: Engine, image_id: str, tmp_path: Path
) -> None:
    with owner(sandbox, image_id, *packages(tmp_path, "deaf"), deadline_s=LONG_S) as owned:
        ((cell_id, container, _),) = owned.cells
        os.kill(owned.process.pid, signal.SIGSTOP)
        before = replace(sandbox, clock=Moved(timedelta(seconds=LONG_S - 60)))
        assert before.reap() == []
        later = replace(sandbox, clock=Moved(timedelta(seconds=LONG_S + EXPIRY_MARGIN_S + 60)))
        assert [(one.cell_id, one.why, one.problem) for one in later.reap()] == [(cell_id, "expired", "")]
        assert not engine.exists(container)
        os.kill(owned.process.pid, signal.SIGCONT)
        assert owned.process.wait(60) != 0  # its cell is lost, and it says so
    assert sandbox.list_cells() == []


# clocks


@dataclass(frozen=True)
class Jumping(SystemClock):
    """A wall clock that is a year off, another way at each look."""

    ways: Iterator[int] = field(default_factory=lambda: cycle((-365, 365)))

    def now(self) -> datetime:
        return super().now() + timedelta(days=next(self.ways))


async def test_a_wall_clock_that_jumps_neither_ends_a_cell_nor_lets_it_go_on(
    sandbox: Sandbox, engine: Engine, image_id: str, tmp_path: Path
) -> None:
    jumping = replace(sandbox, clock=Jumping())
    (package,) = packages(tmp_path, "deaf")
    async with running(jumping, image_id, package, deadline_s=3) as cell:
        first = int(engine.inspect(cell.container)["State"]["Pid"])
        await until_ready(cell)
        begun = monotonic()
        os.kill(first, signal.SIGSTOP)  # so that it is the host's clock that counts
        await lost(cell)
        assert monotonic() - begun > HOST_MARGIN_S - 0.5
        assert (await cell.finish()).cause is Cause.DEADLINE


def test_supervisor_and_host_take_no_deadline_from_the_wall_clock() -> None:
    """The one clock of a cell's deadlines is CLOCK_MONOTONIC, which nobody sets and which stands still while the machine sleeps."""
    supervisor = [
        ROOT / "sandbox_images/guest/cloche_guest" / f"{name}.py"
        for name in ("supervisor", "control", "running", "gate", "children", "link")
    ]
    host = [ROOT / "engine/sandbox/watch.py"]
    for path in (*supervisor, *host):
        text = path.read_text(encoding="utf-8")
        assert not [word for word in ("time.time", "datetime", ".now(", "utcnow", "localtime") if word in text], path
    assert "time.monotonic()" in (ROOT / "engine/clock.py").read_text(encoding="utf-8")
