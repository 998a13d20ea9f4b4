"""Cells that wait: used once, by whoever takes them first, never stale, gone by themselves, and no harm when they are dead."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import Any

import anyio
import pytest
from cloche_guest import codec

from engine.errors import ExchangeError, SandboxError
from engine.sandbox import cell as cell_module
from engine.sandbox import pool, probed, tally
from engine.sandbox.cell import Cell
from engine.sandbox.docker import Engine
from engine.sandbox.jobs import RunJob
from engine.sandbox.launch import Launch, Wish
from engine.sandbox.outcome import CellEnd
from engine.sandbox.place import IDLE, read_idle
from engine.sandbox.policy import Runtime
from engine.sandbox.pool import borrowed_cell, fill, take
from engine.sandbox.runtimes import expected
from engine.sandbox.service import Sandbox
from tests.helpers.runtimes import runtime_of
from tests.helpers.sandbox import containers_of, make_sandbox, nothing_left, snapshot, tell

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.runc_only("the pool's own rules, kept by the host; what the cell itself does is tried under both"),
]

BODY = """
    import os

    def sample(task):
        return [task, sorted(os.listdir("/cloche/in/snapshot/workflows")), os.listdir("/tmp")]
"""


@pytest.fixture
def sandbox(tmp_path: Path, engine: Engine, image_id: str) -> Any:
    """One whose pool has one place, in a home where the probe held; what waits in it at the end is ended."""
    made = make_sandbox(tmp_path / "home", engine, warm_cells=1)
    probed.remember(made.settings.home, probed.key_of(made, runtime_of(engine), image_id))
    with nothing_left(made):
        yield made
        if made.keeper is not None:
            made.keeper.close()
        empty(made)


def empty(sandbox: Sandbox) -> None:
    for path in waiting(sandbox):
        idle = read_idle(path)
        assert idle is not None
        assert pool.end_idle(sandbox, path, idle.key)


def waiting(sandbox: Sandbox) -> list[Path]:
    return sorted(path.parent for path in (sandbox.settings.home / "cells").glob(f"*/{IDLE}"))


def wish_of(sandbox: Sandbox, image_id: str, **changes: Any) -> Wish:
    policy = sandbox.policy("run", runtime_of(sandbox.engine))
    return replace(Wish(image_id, "run", 60.0, 1, "", policy, policy), **changes)


def filled(sandbox: Sandbox, image_id: str) -> Path:
    """The one cell that waits after the pool was filled."""
    assert anyio.run(fill, sandbox, wish_of(sandbox, image_id)) == 1
    (path,) = waiting(sandbox)
    return path


async def used(sandbox: Sandbox, image_id: str, package: Path, task: Any = "x") -> tuple[Cell, Any, CellEnd]:
    async with borrowed_cell(sandbox, image_id=image_id, kind="run", deadline_s=60.0, generation=4) as cell:
        await cell.deliver(RunJob("sample", codec.encode(task), "00" * 16, 60.0), package)
        story = await tell(cell)
    return cell, story.value, story.ended


def use(sandbox: Sandbox, image_id: str, package: Path, task: Any = "x") -> tuple[Cell, Any, CellEnd]:
    return anyio.run(partial(used, sandbox, image_id, package, task))


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return snapshot(tmp_path / "snapshot", BODY)


@pytest.mark.both_runtimes
def test_a_job_gets_the_cell_that_waits_which_is_used_once(sandbox: Sandbox, image_id: str, package: Path) -> None:
    path = filled(sandbox, image_id)
    cell, value, end = use(sandbox, image_id, package)
    assert (cell.cell_id, value, end.accounting.start) == (path.name, ["x", ["sample"], []], "warm")
    assert (containers_of(sandbox), waiting(sandbox)) == ([], [])
    again, _, end = use(sandbox, image_id, package)
    assert (again.cell_id != cell.cell_id, end.accounting.start) == (True, "cold")


@pytest.mark.both_runtimes
def test_a_snapshot_is_seen_in_its_own_cell_only_and_cannot_be_written(
    sandbox: Sandbox, image_id: str, tmp_path: Path
) -> None:
    body = """
        import os

        def sample(task):
            try:
                with open("/cloche/in/snapshot/workflows/sample/workflow.py", "a"):
                    return "written"
            except OSError as error:
                return [type(error).__name__, sorted(os.listdir("/cloche/in/snapshot/workflows/sample"))]
    """
    packages = [snapshot(tmp_path / name, body, **{name: "X = 1\n"}) for name in ("one", "other")]
    for at, name in enumerate(("one", "other")):
        filled(sandbox, image_id)
        _, value, end = use(sandbox, image_id, packages[at])
        assert end.accounting.start == "warm"
        assert value == ["PermissionError", ["__init__.py", f"{name}.py", "workflow.py"]] or value == [
            "OSError",
            ["__init__.py", f"{name}.py", "workflow.py"],
        ]


@pytest.mark.both_runtimes
def test_a_keeper_removes_the_used_cell_and_leaves_a_replacement(
    sandbox: Sandbox, image_id: str, package: Path
) -> None:
    sandbox.keep()
    keeper = sandbox.keeper
    assert keeper is not None
    first, _, end = use(sandbox, image_id, package)
    assert (end.accounting.start, end.leaving, end.left_behind) == ("cold", True, False)
    keeper.settle()
    (path,) = waiting(sandbox)
    assert [one.cell_id for one in sandbox.list_cells()] == [path.name] != [first.cell_id]
    second, _, end = use(sandbox, image_id, package)
    assert (second.cell_id, end.accounting.start) == (path.name, "warm")
    keeper.settle()
    assert len(containers_of(sandbox)) == len(waiting(sandbox)) == 1
    counted = tally.read(sandbox.settings.home)
    assert {name: counted[name] for name in ("warm", "cold", "made", "dead")} == {
        "warm": 1,
        "cold": 1,
        "made": 2,
        "dead": 0,
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"memory_bytes": 256 * 1024 * 1024},
        {"tmp_bytes": 32 * 1024 * 1024},
        {"processes": 64},
    ],
)
def test_a_cell_of_another_policy_is_not_handed_out_and_is_ended_when_the_pool_is_filled(
    changes: dict[str, int], sandbox: Sandbox, image_id: str, engine: Engine
) -> None:
    old = filled(sandbox, image_id)
    other = Sandbox(sandbox.settings.model_copy(update=changes), sandbox.clock, engine)
    probed.remember(other.settings.home, probed.key_of(other, runtime_of(engine), image_id))
    wish = wish_of(other, image_id)
    assert take(other, wish) is None
    assert anyio.run(fill, other, wish) == 1
    (path,) = waiting(other)
    assert path != old
    assert tally.read(sandbox.settings.home)["stale"] == 1


@pytest.mark.parametrize("field", ["image_id", "deadline_s", "kind"])
def test_a_cell_for_something_else_is_not_handed_out(field: str, sandbox: Sandbox, image_id: str) -> None:
    filled(sandbox, image_id)
    other: dict[str, Any] = {"image_id": "sha256:" + "0" * 64, "deadline_s": 61.0, "kind": "gate"}
    assert take(sandbox, replace(wish_of(sandbox, image_id), **{field: other[field]})) is None
    assert len(waiting(sandbox)) == 1


def test_of_many_takers_one_gets_the_cell(sandbox: Sandbox, image_id: str) -> None:
    path = filled(sandbox, image_id)
    with ThreadPoolExecutor(16) as threads:
        got = list(threads.map(lambda _: take(sandbox, wish_of(sandbox, image_id)), range(64)))
    (launch,) = [one for one in got if one is not None]
    assert launch.cell_id == path.name
    launch.destroy()
    launch.release(gone=True)


def test_a_cell_whose_taker_was_killed_is_the_reapers_and_nobody_elses(
    sandbox: Sandbox, image_id: str, tmp_path: Path
) -> None:
    path = filled(sandbox, image_id)
    taker = dedent(f"""
        import os, signal
        from pathlib import Path
        from engine.sandbox.place import Place, read_idle
        path = Path({str(path)!r})
        assert Place.take(path, key=read_idle(path).key)
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", taker], env=env, check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert take(sandbox, wish_of(sandbox, image_id)) is None
    assert [(one.cell_id, one.why, one.problem) for one in sandbox.reap()] == [(path.name, "owner_dead", "")]
    assert containers_of(sandbox) == []


def test_the_reaper_leaves_a_cell_that_may_wait_and_ends_one_whose_time_is_over(
    sandbox: Sandbox, image_id: str
) -> None:
    path = filled(sandbox, image_id)
    assert sandbox.reap() == []
    (listed,) = sandbox.list_cells()
    assert (listed.cell_id, listed.idle, listed.owned, listed.expired) == (path.name, True, False, False)

    class Later:
        def now(self) -> Any:
            from datetime import timedelta

            return sandbox.clock.now() + timedelta(seconds=sandbox.settings.warm_idle_s + 61)

        def monotonic_s(self) -> float:
            return sandbox.clock.monotonic_s()

    later = Sandbox(sandbox.settings, Later(), sandbox.engine)
    assert take(later, wish_of(sandbox, image_id)) is None
    assert [(one.cell_id, one.why) for one in later.reap()] == [(path.name, "owner_dead")]


def test_an_idle_cell_ends_by_itself_without_anybody(sandbox: Sandbox, image_id: str) -> None:
    async def shelved() -> str:
        wish = wish_of(sandbox, image_id, idle_s=1.0)
        cell = Cell(sandbox, Launch(sandbox, wish))
        await cell.start()
        cell.shelve(pool.key_of(sandbox, wish))
        return cell.container

    container = anyio.run(shelved)
    assert sandbox.engine.wait(container, timeout_s=60) == 0
    (reaped,) = sandbox.reap()
    assert (reaped.why, reaped.problem) == ("owner_dead", "")


def kill(sandbox: Sandbox, container: str) -> None:
    sandbox.engine.kill(container)
    sandbox.engine.wait(container, timeout_s=60)


def remove(sandbox: Sandbox, container: str) -> None:
    sandbox.engine.destroy(container)


def pause(sandbox: Sandbox, container: str) -> None:
    sandbox.engine._api().pause(container)


@pytest.mark.both_runtimes
@pytest.mark.parametrize("harm", [kill, remove])
def test_a_job_that_meets_a_dead_cell_starts_cold_and_the_tally_says_so(
    harm: Any, sandbox: Sandbox, image_id: str, package: Path
) -> None:
    path = filled(sandbox, image_id)
    idle = read_idle(path)
    assert idle is not None
    harm(sandbox, idle.container_id)
    sandbox.keep()
    assert sandbox.keeper is not None
    cell, value, end = use(sandbox, image_id, package)
    assert (cell.cell_id != path.name, value[0], end.accounting.start) == (True, "x", "cold")
    sandbox.keeper.settle()
    assert tally.read(sandbox.settings.home)["dead"] == 1
    assert path.name not in {one.cell_id for one in sandbox.list_cells()}


@pytest.mark.both_runtimes
def test_a_paused_cell_is_seen_or_does_not_take_its_job_in_time(
    sandbox: Sandbox, image_id: str, package: Path, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = filled(sandbox, image_id)
    idle = read_idle(path)
    assert idle is not None
    pause(sandbox, idle.container_id)
    if expected(runtime, "paused_cell_is_seen"):
        _, value, end = use(sandbox, image_id, package)
        assert (value[0], end.accounting.start) == ("x", "cold")
        assert [one.cell_id for one in sandbox.reap()] == [path.name]
        return
    monkeypatch.setattr(cell_module, "TAKEN_S", 1.0)
    with pytest.raises(ExchangeError) as lost:
        use(sandbox, image_id, package)
    assert lost.value.code == "job.not_taken"
    assert containers_of(sandbox) == []


def test_a_spoilt_exchange_is_a_dead_cell(sandbox: Sandbox, image_id: str, package: Path) -> None:
    path = filled(sandbox, image_id)
    (path / "out" / "000001.seg").write_bytes(b'{"v":1}\n')
    sandbox.keep()
    _, value, end = use(sandbox, image_id, package)
    assert (value[0], end.accounting.start) == ("x", "cold")


def test_two_that_fill_make_no_more_than_the_pool_has_places(sandbox: Sandbox, image_id: str) -> None:
    def one(_: int) -> int:
        return anyio.run(fill, sandbox, wish_of(sandbox, image_id))

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(one, range(4))) == 1
    assert len(waiting(sandbox)) == 1


def test_the_pool_takes_no_more_than_its_share_of_memory(
    sandbox: Sandbox, image_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "available_memory", lambda: 2 * sandbox.settings.memory_bytes - 1)
    assert anyio.run(fill, sandbox, wish_of(sandbox, image_id)) == 0
    monkeypatch.setattr(pool, "available_memory", lambda: 2 * sandbox.settings.memory_bytes)
    assert anyio.run(fill, sandbox, wish_of(sandbox, image_id)) == 1


def test_a_pool_without_places_keeps_nothing(tmp_path: Path, engine: Engine, image_id: str, package: Path) -> None:
    sandbox = make_sandbox(tmp_path / "other", engine, warm_cells=0)
    with nothing_left(sandbox):
        sandbox.keep()
        assert sandbox.keeper is None
        assert anyio.run(fill, sandbox, wish_of(sandbox, image_id)) == 0
        _, _, end = use(sandbox, image_id, package)
        assert (end.accounting.start, end.leaving) == ("cold", False)


@pytest.mark.both_runtimes
def test_a_program_that_does_not_end_by_itself_is_gone_before_that_is_told(
    sandbox: Sandbox, image_id: str, tmp_path: Path
) -> None:
    package = snapshot(tmp_path / "endless", "def sample(task):\n    while True: pass\n")
    filled(sandbox, image_id)
    sandbox.keep()

    async def late() -> CellEnd:
        async with borrowed_cell(sandbox, image_id=image_id, kind="run", deadline_s=60.0) as cell:
            await cell.deliver(RunJob("sample", None, "00" * 16, 0.3), package)
            story = await tell(cell)
            assert cell.container not in {one.id for one in sandbox.engine.containers({"io.cloche.home": None})}
            return story.ended

    end = anyio.run(late)
    assert (str(end.cause), end.leaving, end.accounting.start) == ("deadline", False, "warm")


def test_a_failed_filling_is_counted_and_leaves_nothing(sandbox: Sandbox, image_id: str) -> None:
    missing = "sha256:" + "0" * 64
    probed.remember(sandbox.settings.home, probed.key_of(sandbox, runtime_of(sandbox.engine), missing))
    wish = wish_of(sandbox, missing)
    with pytest.raises(SandboxError):
        anyio.run(fill, sandbox, wish)
    sandbox.keep()
    assert sandbox.keeper is not None
    sandbox.keeper.refill(wish)
    sandbox.keeper.settle()
    assert tally.read(sandbox.settings.home)["failed"] == 1


def test_no_cell_is_made_to_wait_where_the_probe_has_not_held(sandbox: Sandbox, image_id: str) -> None:
    (sandbox.settings.home / probed.PASSED).unlink()
    assert anyio.run(fill, sandbox, wish_of(sandbox, image_id)) == 0
    assert containers_of(sandbox) == []
