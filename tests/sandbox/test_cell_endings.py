"""However a cell ends, by us, by somebody else or with its owner: the cause is true and nothing is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from time import monotonic

import anyio
import pytest

from engine.clock import SystemClock
from engine.errors import CellLost
from engine.sandbox.cell import Cell, open_cell
from engine.sandbox.docker import Engine
from engine.sandbox.engine_errors import ImageMissing
from engine.sandbox.frames import Call, Ready
from engine.sandbox.outcome import Cause
from engine.sandbox.policy import Runtime
from engine.sandbox.service import Sandbox
from tests.helpers.sandbox import (
    containers_of,
    end_process,
    make_sandbox,
    run_package,
    running,
    snapshot,
    tell,
    wait_for,
)
from tests.helpers.weak_guest import weakened, with_guest

pytestmark = [pytest.mark.sandbox, pytest.mark.anyio, pytest.mark.both_runtimes]

ROOT = Path(__file__).parents[2]
WAITING = """
    from cloche import llm

    def sample(task):
        return llm("wait")
"""


async def until_call(cell: Cell) -> None:
    while not isinstance(await cell.receive(), Call):
        pass


async def read_on(cell: Cell) -> None:
    while True:
        await cell.receive()


async def lost(cell: Cell) -> None:
    with pytest.raises(CellLost), anyio.fail_after(60):
        await read_on(cell)


def first_process(engine: Engine, cell: Cell) -> int:
    return int(engine.inspect(cell.container)["State"]["Pid"])


async def test_a_cancelled_cell_says_so_and_goes(sandbox: Sandbox, image_id: str, tmp_path: Path) -> None:
    async with running(sandbox, image_id, snapshot(tmp_path / "s", WAITING)) as cell:
        await until_call(cell)
        await cell.cancel("asked by the owner")
        story = await tell(cell)
    assert (story.ended.cause, story.ended.sandbox_failed) == (Cause.CANCELLED, False)
    assert containers_of(sandbox) == []


async def test_a_cancelled_task_leaves_no_cell(sandbox: Sandbox, image_id: str, tmp_path: Path) -> None:
    package = snapshot(tmp_path / "s", WAITING)
    with anyio.move_on_after(1.5) as scope:
        async with running(sandbox, image_id, package) as cell:
            await tell(cell, lambda *_: None)
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert containers_of(sandbox) == []


async def test_a_cancellation_during_the_start_leaves_no_cell(sandbox: Sandbox, image_id: str) -> None:
    for after_s in (0.0, 0.005, 0.02, 0.08):
        with anyio.move_on_after(after_s):
            async with open_cell(sandbox, image_id=image_id, kind="run", deadline_s=5):
                await anyio.sleep_forever()
        assert containers_of(sandbox) == []


async def test_an_error_in_the_block_leaves_no_cell(sandbox: Sandbox, image_id: str) -> None:
    with pytest.raises(ZeroDivisionError):
        async with open_cell(sandbox, image_id=image_id, kind="run", deadline_s=5) as cell:
            raise ZeroDivisionError
    assert cell.end is not None
    assert (cell.end.cause, cell.end.left_behind) == (Cause.CANCELLED, False)
    assert containers_of(sandbox) == []


async def test_a_missing_image_is_named_and_leaves_nothing(sandbox: Sandbox) -> None:
    with pytest.raises(ImageMissing) as caught:
        async with open_cell(sandbox, image_id="sha256:" + "0" * 64, kind="run", deadline_s=5):
            pytest.fail("a cell without an image was opened")
    assert "cloche image build" in caught.value.fix
    assert caught.value.exit_code == 3


async def test_a_kill_by_somebody_else_is_the_operators(
    sandbox: Sandbox, engine: Engine, image_id: str, tmp_path: Path
) -> None:
    async with running(sandbox, image_id, snapshot(tmp_path / "s", WAITING)) as cell:
        await until_call(cell)
        assert Engine(engine.host).kill(cell.container)
        await lost(cell)
        end = await cell.finish()
    assert (end.cause, end.sandbox_failed) == (Cause.OPERATOR, True)


async def test_a_removal_by_somebody_else_is_the_operators(
    sandbox: Sandbox, engine: Engine, image_id: str, tmp_path: Path
) -> None:
    async with running(sandbox, image_id, snapshot(tmp_path / "s", WAITING)) as cell:
        await until_call(cell)
        Engine(engine.host).destroy(cell.container)
        await lost(cell)
        end = await cell.finish()
    assert (end.cause, end.left_behind) == (Cause.OPERATOR, False)


async def test_a_supervisor_that_dies_is_lost_and_not_blamed_on_a_limit(
    sandbox: Sandbox, engine: Engine, image_id: str, tmp_path: Path
) -> None:
    async with running(sandbox, image_id, snapshot(tmp_path / "s", WAITING)) as cell:
        await until_call(cell)
        end_process(first_process(engine, cell))
        await lost(cell)
        end = await cell.finish()
    assert (end.cause, end.sandbox_failed) == (Cause.SUPERVISOR_LOST, True)


async def test_a_frozen_supervisor_is_killed_a_little_after_the_deadline(
    sandbox: Sandbox, engine: Engine, image_id: str, tmp_path: Path
) -> None:
    async with running(sandbox, image_id, snapshot(tmp_path / "s", WAITING), deadline_s=3) as cell:
        begun, first = monotonic(), first_process(engine, cell)
        await until_call(cell)
        os.kill(first, signal.SIGSTOP)
        await lost(cell)
        taken = monotonic() - begun
        end = await cell.finish()
    assert (end.cause, end.detail) == (Cause.DEADLINE, "the host ended the cell")
    assert 4.5 < taken < 30


async def test_the_deadline_holds_while_the_event_loop_is_busy(
    sandbox: Sandbox, engine: Engine, image_id: str, tmp_path: Path
) -> None:
    async with running(sandbox, image_id, snapshot(tmp_path / "s", WAITING), deadline_s=3) as cell:
        pid = first_process(engine, cell)
        await until_call(cell)
        os.kill(pid, signal.SIGSTOP)
        wait_for(lambda: not Path(f"/proc/{pid}").exists())  # blocks the loop
        assert (await cell.finish()).cause is Cause.DEADLINE


OWNER = """
import sys
from pathlib import Path
import anyio
from engine.sandbox.docker import Engine
from tests.helpers.sandbox import make_sandbox, running
from engine.sandbox.frames import Call

async def main(host, home, image_id, snapshot, deadline_s):
    sandbox = make_sandbox(Path(home), Engine(host))
    async with running(sandbox, image_id, Path(snapshot), deadline_s=float(deadline_s)) as cell:
        while not isinstance(await cell.receive(), Call):
            pass
        print("ready", cell.container, cell.uid, flush=True)
        await anyio.sleep_forever()

anyio.run(main, *sys.argv[1:])
"""


def start_owner(sandbox: Sandbox, image_id: str, package: Path, *, deadline_s: float) -> tuple[int, str, int]:
    """Another process that owns a cell of this home, waiting: its pid, the container, the worker's uid."""
    owner = subprocess.Popen(
        [
            sys.executable,
            "-c",
            OWNER,
            sandbox.engine.host,
            str(sandbox.settings.home),
            image_id,
            str(package),
            str(deadline_s),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "CLOCHE_HOME": str(sandbox.settings.home)},
    )
    assert owner.stdout is not None
    for line in owner.stdout:
        if line.startswith("ready "):
            _, container, uid = line.split()
            return owner.pid, container, int(uid)
    pytest.fail(f"the owner ended with {owner.wait()}")


async def test_the_cells_of_a_killed_owner_are_reaped(
    sandbox: Sandbox, engine: Engine, image_id: str, tmp_path: Path
) -> None:
    package = snapshot(tmp_path / "s", WAITING)
    pid, container, uid = start_owner(sandbox, image_id, package, deadline_s=60)
    (listed,) = sandbox.list_cells()
    assert (listed.container, listed.owned, listed.expired, listed.kind) == (container, True, False, "run")
    assert sandbox.reap() == []
    assert engine.exists(container)
    end_process(pid)
    os.waitpid(pid, 0)
    (listed,) = sandbox.list_cells()
    assert not listed.owned
    async with open_cell(sandbox, image_id=image_id, kind="run", deadline_s=5) as cell:
        assert cell.uid != uid
        (reaped,) = sandbox.reap()
    assert (reaped.container, reaped.why, reaped.problem) == (container, "owner_dead", "")
    assert not engine.exists(container)
    assert sandbox.list_cells() == []


async def test_ctrl_c_takes_the_cell_down_with_the_command(
    sandbox: Sandbox, engine: Engine, image_id: str, tmp_path: Path
) -> None:
    pid, container, _ = start_owner(sandbox, image_id, snapshot(tmp_path / "s", WAITING), deadline_s=60)
    os.kill(pid, signal.SIGINT)
    os.waitpid(pid, 0)
    assert not engine.exists(container)
    assert sandbox.list_cells() == []


async def test_a_cell_ends_by_itself_at_its_deadline_when_its_owner_is_stopped(
    sandbox: Sandbox, engine: Engine, image_id: str, tmp_path: Path
) -> None:
    pid, container, _ = start_owner(sandbox, image_id, snapshot(tmp_path / "s", WAITING), deadline_s=3)
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_for(lambda: not engine.inspect(container)["State"]["Running"])
    finally:
        end_process(pid)
        os.waitpid(pid, 0)
    assert [one.why for one in sandbox.reap()] == ["owner_dead"]


class LaterClock(SystemClock):
    """A day ahead."""

    def now(self) -> datetime:
        return super().now() + timedelta(days=1)


async def test_an_expired_cell_is_reaped_although_its_owner_lives(
    sandbox: Sandbox, engine: Engine, image_id: str, tmp_path: Path
) -> None:
    later = Sandbox(sandbox.settings, LaterClock(), engine)
    async with running(sandbox, image_id, snapshot(tmp_path / "s", WAITING)) as cell:
        await until_call(cell)
        assert [(one.cell_id, one.why) for one in later.reap()] == [(cell.cell_id, "expired")]
        await lost(cell)
        assert (await cell.finish()).cause is Cause.OPERATOR


async def test_the_reaper_leaves_other_homes_alone(
    sandbox: Sandbox, engine: Engine, image_id: str, tmp_path: Path
) -> None:
    other = make_sandbox(tmp_path / "other", engine)
    async with open_cell(sandbox, image_id=image_id, kind="run", deadline_s=5) as cell:
        assert other.reap() == []
        assert other.list_cells() == []
        assert engine.exists(cell.container)


async def test_directories_without_a_container_are_swept(sandbox: Sandbox) -> None:
    old = sandbox.settings.home / "cells" / "c0123456789abcdef"
    old.mkdir(parents=True)
    (old / "cell.json").write_text("{}")
    young = sandbox.settings.home / "cells" / ".cfedcba9876543210"
    young.mkdir()
    assert [(one.cell_id, one.why) for one in sandbox.reap()] == [(old.name, "leftover_directory")]
    os.utime(young, (0, 0))
    assert [one.cell_id for one in sandbox.reap()] == [young.name]


async def test_the_intent_is_written_and_owned_before_the_job_and_never_mounted(
    sandbox: Sandbox, engine: Engine, image_id: str, runtime: Runtime
) -> None:
    async with open_cell(
        sandbox, image_id=image_id, kind="gate", deadline_s=5, run_id="20261130T000000Z-00000000", generation=4
    ) as cell:
        place = sandbox.settings.home / "cells" / cell.cell_id
        intent = json.loads((place / "cell.json").read_text())
        inspected = engine.inspect(cell.container)
    assert (intent["kind"], intent["run_id"], intent["generation"]) == ("gate", "20261130T000000Z-00000000", 4)
    assert intent["container"] == inspected["Name"].lstrip("/") == f"cloche-{cell.cell_id}"
    mounted = {str(Path(mount["Source"]).relative_to(place)) for mount in inspected["Mounts"]}
    bell = {"out/bell"} if (await sandbox.fitting_policy("gate", runtime)).bell else set()
    assert mounted == {"in", "out", "out/000001.seg", "out/000002.seg"} | bell
    labels = inspected["Config"]["Labels"]
    assert labels["io.cloche.home"] == sandbox.home_id
    assert labels["io.cloche.boot"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert (labels["io.cloche.kind"], labels["io.cloche.cell"]) == ("gate", cell.cell_id)
    assert int(labels["io.cloche.expires"]) > SystemClock().now().timestamp()
    assert labels["io.cloche.uid"] == str(intent["uid"]) == str(cell.uid)


async def test_a_trial_passes_and_one_of_a_runtime_that_is_not_there_says_why(
    sandbox: Sandbox, image_id: str, runtime: Runtime
) -> None:
    trial = await sandbox.trial(runtime, image_id)
    assert trial.passed, trial
    if "runsc" not in sandbox.engine.runtimes():
        missing = await sandbox.trial("runsc", image_id)
        assert (missing.passed, missing.code) == (False, "runtime_missing")


async def test_ready_comes_before_anything_of_the_program(sandbox: Sandbox, image_id: str, tmp_path: Path) -> None:
    async with running(sandbox, image_id, snapshot(tmp_path / "s", WAITING)) as cell:
        assert isinstance(await cell.receive(), Ready)


@pytest.mark.runc_only("the patience is our guest's, whoever kills")
async def test_processes_that_take_long_to_die_do_not_cost_the_program_its_result(
    sandbox: Sandbox, image_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process with tens of thousands of mappings can take seconds; here PID 1 sees one for seven."""
    slow = (
        "def _children_left() -> bool:\n",
        "def _children_left() -> bool:\n    if time.monotonic() < AT:\n        return True\n",
    )
    begun = (
        "        self.collect()\n        until",
        "        global AT\n        AT = time.monotonic() + 7\n        self.collect()\n        until",
    )
    guest = weakened(tmp_path, ("children.py", *slow), ("children.py", *begun))
    policy = with_guest(sandbox.policy("run", "runc"), guest, monkeypatch)
    story = await run_package(
        sandbox, image_id, snapshot(tmp_path / "s", "def sample(task):\n    return task\n"), policy=policy
    )
    assert story.end.cause is Cause.EXIT
    assert story.end.accounting.run_s > 6
