"""An engine that fails in the middle: whichever call it is, the sandbox failed, and nothing is left that is not listed and reaped."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest

from engine.errors import SandboxError
from engine.sandbox import origin, remains
from engine.sandbox.cell import Cell, open_cell
from engine.sandbox.docker import Engine
from engine.sandbox.frames import Call
from engine.sandbox.outcome import Cause
from engine.sandbox.service import Sandbox
from tests.helpers.engine_proxy import EngineProxy, Fault, How, When, engine_proxy
from tests.helpers.sandbox import alive, containers_of, running, snapshot, tell, wait_for

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.anyio,
    pytest.mark.runc_only(
        "87 s; the calls to the engine and their failures are the same; what gVisor itself leaves has test_gvisor_remains.py"
    ),
]

SILENCE_S = 3.0
"""How long an engine's answer is waited for that does not come; ten times what a busy machine takes for one that does."""

WAITING = """
    from cloche import llm

    def sample(task):
        return llm("wait")
"""


@pytest.fixture
def proxy(engine: Engine) -> Iterator[EngineProxy]:
    with engine_proxy(engine.host) as made:
        yield made


@contextmanager
def through(proxy: EngineProxy, sandbox: Sandbox, timeout_s: float) -> Iterator[Sandbox]:
    """The same home, on an engine that is spoken to through the proxy by a client that knows nothing yet."""
    engine = Engine(proxy.host, timeout_s=timeout_s)
    yield replace(sandbox, engine=engine)
    engine.close()


@contextmanager
def stalling(proxy: EngineProxy, proxied: Sandbox, call: str) -> Iterator[None]:
    """From now on this call is never answered, and answers are waited for only so long; the block ends in time."""
    proxied.engine.close()
    proxied.engine.timeout_s = SILENCE_S
    proxied.engine.ping()
    proxy.rule = lambda name, _: Fault("before", "stalled") if name == call else None
    begun = monotonic()
    yield
    assert monotonic() - begun < 8 * SILENCE_S


async def start_calls(proxy: EngineProxy, sandbox: Sandbox, image_id: str) -> list[str]:
    """The calls between nothing and an attested cell, once it is known which engine it is."""
    with through(proxy, sandbox, 60) as knowing:
        origin.of_new_cell(knowing)
    proxy.calls.clear()
    with through(proxy, sandbox, 60) as proxied:
        async with open_cell(proxied, image_id=image_id, kind="run", deadline_s=5):
            return list(proxy.calls)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("how", "timeout_s"), [("refused", 60.0), ("lost", 60.0), ("stalled", 1.0)])
async def test_a_start_that_fails_at_any_call_leaves_nothing_that_is_not_listed_and_reaped(
    sandbox: Sandbox, proxy: EngineProxy, image_id: str, when: When, how: How, timeout_s: float
) -> None:
    calls = await start_calls(proxy, sandbox, image_id)
    assert {"create", "inspect", "start"} < set(calls)
    for failing, name in enumerate(calls):
        proxy.calls.clear()
        proxy.rule = lambda _, number, failing=failing: Fault(when, how) if number == failing else None
        with through(proxy, sandbox, timeout_s) as proxied, pytest.raises(SandboxError) as caught:
            async with open_cell(proxied, image_id=image_id, kind="run", deadline_s=5):
                pytest.fail(f"a cell was opened although {name} failed")
        assert caught.value.exit_code == 3
        proxy.heal()
        check_left_is_listed_and_reaped(sandbox, name)


def check_left_is_listed_and_reaped(sandbox: Sandbox, name: str) -> None:
    """What there is of this home is listed; the reaper ends it, also what a slow engine makes only now."""
    there = {one.removeprefix("cloche-") for one in containers_of(sandbox)}
    there |= {path.name for path in (sandbox.settings.home / "cells").iterdir()}
    assert there <= {cell.cell_id for cell in sandbox.list_cells()}, name
    reaped = sandbox.reap()
    assert there <= {one.cell_id for one in reaped}, name
    assert {one.problem for one in reaped} <= {""}, name
    wait_for(lambda: not (sandbox.reap() or sandbox.list_cells() or containers_of(sandbox)))


async def until_call(cell: Cell) -> None:
    while not isinstance(await cell.receive(), Call):
        pass


@pytest.mark.parametrize("call", ["inspect", "kill", "remove"])
async def test_an_engine_that_stalls_while_a_cell_is_ended_is_waited_for_once_and_the_rest_is_the_reapers(
    sandbox: Sandbox, proxy: EngineProxy, image_id: str, tmp_path: Path, call: str
) -> None:
    with through(proxy, sandbox, 60) as proxied:
        async with running(proxied, image_id, snapshot(tmp_path / "s", WAITING)) as cell:
            await until_call(cell)
            first = int(sandbox.engine.inspect(cell.container)["State"]["Pid"])
            with stalling(proxy, proxied, call):
                end = await cell.finish()
    assert (end.cause, end.left_behind) == (Cause.CANCELLED, True)
    assert not alive(first), "the program goes on"
    (listed,) = sandbox.list_cells()
    assert (listed.cell_id, listed.owned) == (cell.cell_id, False)
    proxy.heal()
    with through(proxy, sandbox, 60) as proxied:
        assert [(one.cell_id, one.problem) for one in proxied.reap()] == [(cell.cell_id, "")]
    assert remains.find({cell.container}) == {}


async def test_a_cell_that_was_killed_is_removed_although_the_engine_never_says_that_it_ended(
    sandbox: Sandbox, proxy: EngineProxy, image_id: str
) -> None:
    with through(proxy, sandbox, 60) as proxied:
        async with open_cell(proxied, image_id=image_id, kind="run", deadline_s=5) as cell:
            with stalling(proxy, proxied, "wait"):
                end = await cell.finish()
    assert (end.cause, end.left_behind) == (Cause.CANCELLED, False)
    assert sandbox.list_cells() == []


@pytest.mark.parametrize("call", ["inspect", "wait", "remove"])
async def test_a_result_is_kept_although_the_engine_stalls_after_it(
    sandbox: Sandbox, proxy: EngineProxy, image_id: str, tmp_path: Path, call: str
) -> None:
    with through(proxy, sandbox, 60) as proxied:
        async with running(proxied, image_id, snapshot(tmp_path / "s", WAITING)) as cell:
            await until_call(cell)
            with stalling(proxy, proxied, call):
                await cell.reply_ok(1, "done", at=1.0)
                story = await tell(cell)
    assert (story.value, story.ended.cause) == ("done", Cause.EXIT)
    proxy.heal()
    check_left_is_listed_and_reaped(sandbox, call)


async def test_the_deadline_holds_on_the_host_although_the_engine_kills_nothing(
    sandbox: Sandbox, proxy: EngineProxy, image_id: str, tmp_path: Path
) -> None:
    with through(proxy, sandbox, 60) as proxied:
        async with running(proxied, image_id, snapshot(tmp_path / "s", WAITING), deadline_s=4) as cell:
            await until_call(cell)
            first = int(sandbox.engine.inspect(cell.container)["State"]["Pid"])
            os.kill(first, signal.SIGSTOP)  # the supervisor is stopped: only the host can end this cell
            with stalling(proxy, proxied, "kill"):
                wait_for(lambda: not alive(first), timeout_s=60)
                end = await cell.finish()
    assert (end.cause, end.detail) == (Cause.DEADLINE, "the host ended the cell")
    proxy.heal()
    check_left_is_listed_and_reaped(sandbox, "kill")


@pytest.mark.parametrize("how", ["refused", "lost"])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_step_of_the_teardown_that_fails_once_is_tried_again_and_nothing_stays(
    sandbox: Sandbox, proxy: EngineProxy, image_id: str, when: When, how: How
) -> None:
    with through(proxy, sandbox, 60) as proxied:
        async with open_cell(proxied, image_id=image_id, kind="run", deadline_s=5) as cell:
            started = len(proxy.calls)
        ending = proxy.calls[started:]
    assert cell.end is not None
    assert {"kill", "wait", "remove"} <= set(ending)
    for failing, name in enumerate(ending):
        proxy.rule = lambda *_: None
        with through(proxy, sandbox, 60) as proxied:
            async with open_cell(proxied, image_id=image_id, kind="run", deadline_s=5) as cell:
                proxy.calls.clear()
                proxy.rule = lambda _, number, failing=failing: Fault(when, how) if number == failing else None
            assert cell.end is not None
            assert not cell.end.left_behind, name
        proxy.heal()
        assert sandbox.list_cells() == [], name
