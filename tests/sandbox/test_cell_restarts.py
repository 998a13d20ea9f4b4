"""A container engine that goes and comes back under a running cell, keeping its containers alive or not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from engine.errors import CellLost, SandboxError
from engine.sandbox import remains
from engine.sandbox.cell import Cell
from engine.sandbox.docker import Engine
from engine.sandbox.frames import Call
from engine.sandbox.outcome import Cause
from engine.sandbox.service import Sandbox
from tests.helpers.private_engine import PrivateEngine, private_engine
from tests.helpers.sandbox import (
    alive,
    containers_of,
    loaded_image,
    make_sandbox,
    running,
    snapshot,
    tell,
    wait_for,
)

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.anyio,
    pytest.mark.runc_only("20 s of engines that stop and start; a cell does not see its engine"),
]

WAITING = """
    from cloche import llm

    def sample(task):
        return llm("wait")
"""


@pytest.fixture(scope="module")
def private() -> Iterator[PrivateEngine]:
    with private_engine() as engine:
        yield engine


@pytest.fixture
def own(private: PrivateEngine, tmp_path: Path) -> Iterator[Sandbox]:
    engine = Engine(private.host, timeout_s=60)
    loaded_image(engine)
    yield make_sandbox(tmp_path / "home", engine, runtime="runc")
    engine.close()


async def until_call(cell: Cell) -> None:
    while not isinstance(await cell.receive(), Call):
        pass


def daemon_of(private: PrivateEngine) -> int:
    return int(json.loads((private.root / "run" / "engine.json").read_text())["pid"])


def answers(engine: Engine) -> bool:
    try:
        engine.ping()
    except SandboxError:
        return False
    return True


@contextmanager
def restarts(private: PrivateEngine, engine: Engine, *, live_restore: bool) -> Iterator[None]:
    """The engine is gone while the block runs, and the same one is back behind it; its containers were not touched."""
    pid = daemon_of(private)
    argv = Path(f"/proc/{pid}/cmdline").read_bytes().decode().rstrip("\0").split("\0")
    config = Path(argv[argv.index("--config-file") + 1])
    kept = config.read_text()
    config.write_text(json.dumps({**json.loads(kept), "live-restore": live_restore}))
    os.kill(pid, signal.SIGHUP)
    wait_for(lambda: engine.info()["LiveRestoreEnabled"] is live_restore)
    helper = private.root / "run" / "exec" / "containerd" / "containerd.pid"
    ending = (
        [(pid, signal.SIGTERM)] if live_restore else [(pid, signal.SIGKILL), (int(helper.read_text()), signal.SIGKILL)]
    )
    for one, number in ending:
        os.kill(one, number)
        wait_for(lambda one=one: not alive(one), timeout_s=60)  # type: ignore[misc]
    for file in (helper, private.root / "run" / "docker.pid"):
        file.unlink(missing_ok=True)  # an engine trusts the number in it, whoever has it now
    engine.close()
    yield
    # not by the script, which would first end what the dead engine left
    again = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        RESTARTED.append(again)
        wait_for(lambda: answers(engine), timeout_s=60)
    finally:
        config.write_text(kept)


RESTARTED: list[subprocess.Popen[bytes]] = []


@pytest.fixture(autouse=True)
def by_the_script_again(private: PrivateEngine) -> Iterator[None]:
    """Whatever a test started is ended, and the script's own engine is back."""
    yield
    while RESTARTED:
        started = RESTARTED.pop()
        started.kill()
        started.wait(60)
        private.call("start")


async def test_a_run_goes_on_over_a_restart_of_an_engine_that_keeps_its_containers(
    own: Sandbox, private: PrivateEngine, image_id: str, tmp_path: Path
) -> None:
    async with running(own, image_id, snapshot(tmp_path / "s", WAITING), deadline_s=300) as cell:
        await until_call(cell)
        with restarts(private, own.engine, live_restore=True):
            pass
        await cell.reply_ok(1, "still here", at=1.0)
        story = await tell(cell)
    assert (story.value, story.ended.cause, story.ended.left_behind) == ("still here", Cause.EXIT, False)
    assert remains.find({cell.container}) == {}
    assert own.list_cells() == []


async def test_a_deadline_that_comes_while_the_engine_is_away_holds_and_the_container_is_reaped_when_it_is_back(
    own: Sandbox, private: PrivateEngine, image_id: str, tmp_path: Path
) -> None:
    async with running(own, image_id, snapshot(tmp_path / "s", WAITING), deadline_s=5) as cell:
        first = int(own.engine.inspect(cell.container)["State"]["Pid"])
        await until_call(cell)
        with restarts(private, own.engine, live_restore=True):
            story = await tell(cell)
            assert (story.ended.cause, story.ended.left_behind) == (Cause.DEADLINE, True)
            assert not alive(first)
    assert [(one.cell_id, one.owned) for one in own.list_cells()] == [(cell.cell_id, False)]
    assert [(one.cell_id, one.problem) for one in own.reap()] == [(cell.cell_id, "")]
    assert remains.find({cell.container}) == {}


async def test_an_engine_that_ends_what_it_finds_at_its_start_is_a_failure_of_the_sandbox(
    own: Sandbox, private: PrivateEngine, image_id: str, tmp_path: Path
) -> None:
    async with running(own, image_id, snapshot(tmp_path / "s", WAITING), deadline_s=300) as cell:
        await until_call(cell)
        with restarts(private, own.engine, live_restore=False):
            pass
        with pytest.raises(CellLost), anyio.fail_after(60):
            await tell(cell)
        end = await cell.finish()
    assert end.sandbox_failed
    own.reap()
    assert containers_of(own) == []
    assert remains.find({cell.container}) == {}
