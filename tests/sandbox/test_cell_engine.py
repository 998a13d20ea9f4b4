"""A real engine that hangs, dies and comes back under a running cell. Its own engine, so that nobody else's is touched."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from engine.errors import CellLost, EngineTimeout
from engine.sandbox.cell import open_cell
from engine.sandbox.docker import Engine
from engine.sandbox.frames import Call, Result
from engine.sandbox.outcome import Cause
from engine.sandbox.policy import Runtime
from engine.sandbox.service import Sandbox
from tests.helpers.private_engine import PrivateEngine, private_engine
from tests.helpers.sandbox import containers_of, loaded_image, make_sandbox, running, snapshot, tell, wait_for

pytestmark = [pytest.mark.sandbox, pytest.mark.anyio, pytest.mark.both_runtimes]

WAITING = """
    from cloche import llm

    def sample(task):
        return llm("wait")
"""


@pytest.fixture(scope="module")
def private(runtime: Runtime) -> Iterator[PrivateEngine]:
    with private_engine(gvisor=runtime == "runsc") as engine:
        yield engine


@pytest.fixture
def own(private: PrivateEngine, tmp_path: Path, runtime: Runtime) -> Iterator[Sandbox]:
    engine = Engine(private.host, timeout_s=60)
    loaded_image(engine)
    yield make_sandbox(tmp_path / "home", engine, runtime=runtime)
    engine.close()


@contextmanager
def hanging(private: PrivateEngine, engine: Engine) -> Iterator[None]:
    """The engine answers nothing while the block runs, and is not waited for; before and after it gets all the time it takes."""
    patience_s = engine.timeout_s
    engine.close()
    engine.timeout_s = 2
    engine.ping()
    private.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        private.signal(signal.SIGCONT)
        engine.close()
        engine.timeout_s = patience_s


async def until_call(cell: object) -> None:
    while not isinstance(await cell.receive(), Call):  # type: ignore[attr-defined]
        pass


async def test_a_cell_that_cannot_be_removed_is_left_behind_listed_and_reaped_later(
    own: Sandbox, private: PrivateEngine, image_id: str, tmp_path: Path
) -> None:
    async with running(own, image_id, snapshot(tmp_path / "s", WAITING)) as cell:
        await until_call(cell)
        with hanging(private, own.engine):
            await cell.reply_ok(1, "the exchange does not need the engine", at=1.0)
            story = await tell(cell)
            with pytest.raises(EngineTimeout):
                own.list_cells()
            with pytest.raises(EngineTimeout):
                own.reap()
    assert story.value == "the exchange does not need the engine"
    assert (story.ended.cause, story.ended.left_behind) == (Cause.EXIT, True)
    assert "left behind" in " ".join(story.ended.notes)
    assert [(one.cell_id, one.owned) for one in own.list_cells()] == [(cell.cell_id, False)]
    assert [(one.cell_id, one.problem) for one in own.reap()] == [(cell.cell_id, "")]
    assert containers_of(own) == []
    assert own.list_cells() == []


async def test_no_cell_opens_while_the_engine_hangs(own: Sandbox, private: PrivateEngine, image_id: str) -> None:
    with hanging(private, own.engine), pytest.raises(EngineTimeout), anyio.fail_after(50):
        async with open_cell(own, image_id=image_id, kind="run", deadline_s=5):
            pytest.fail("a cell was opened")
    # the engine may get to the request that nobody waits for any more
    wait_for(lambda: not (own.reap() or own.list_cells() or containers_of(own)))


async def test_an_engine_that_restarts_under_a_cell_is_the_cause_and_nothing_stays(
    own: Sandbox, private: PrivateEngine, image_id: str, tmp_path: Path
) -> None:
    async with running(own, image_id, snapshot(tmp_path / "s", WAITING), deadline_s=100) as cell:
        await until_call(cell)
        pid = int(own.engine.inspect(cell.container)["State"]["Pid"])
        private.signal(signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(CellLost), anyio.fail_after(60):
            await tell(cell)
        end = await cell.finish()
    assert (end.cause, end.sandbox_failed, end.left_behind) == (Cause.ENGINE_LOST, True, True)
    private.call("start")
    wait_for(lambda: own.engine.containers({}) is not None)
    own.reap()
    assert containers_of(own) == []
    assert own.list_cells() == []


async def test_a_result_still_comes_when_the_engine_is_gone(
    own: Sandbox, private: PrivateEngine, image_id: str, tmp_path: Path
) -> None:
    async with running(own, image_id, snapshot(tmp_path / "s", WAITING), deadline_s=60) as cell:
        await until_call(cell)
        private.signal(signal.SIGKILL)
        await cell.reply_ok(1, "here", at=1.0)
        story = await tell(cell)
    assert story.of(Result)[0].encoded == "here"
    assert (story.ended.cause, story.ended.left_behind) == (Cause.EXIT, True)
    private.call("start")
    own.reap()
    assert containers_of(own) == []
