"""Cells of a killed command that ran on another engine than the one which the next command is told of.

The next command looks at the machine from a pid namespace of its own, so that the other engine's processes are as far away from it
as those of another machine.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from engine.clock import SystemClock
from engine.sandbox import labels, origin
from engine.sandbox.docker import Engine
from engine.sandbox.place import intent_of
from engine.sandbox.service import Sandbox
from engine.settings import Settings, load
from tests.helpers.commands import CLOCHE, Answer, Commands, as_if_probed, end, home_with_image, package
from tests.helpers.private_engine import PrivateEngine, private_engine
from tests.helpers.sandbox import alive, loaded_image, make_sandbox, wait_for

pytestmark = [pytest.mark.sandbox, pytest.mark.runc_only("which engine made a cell, not what runs in it")]

SLEEPER = """
    import asyncio

    from cloche import now


    async def _doze(seconds: int) -> None:
        await asyncio.sleep(seconds)


    def sleeper(task: str) -> int:
        now()
        asyncio.run(_doze(600 if task == "long" else 0))
        return 1
"""


@dataclass(frozen=True)
class FarAway(Commands):
    """Commands that see no process but their own."""

    def __call__(
        self, *words: str | Path, stdin: bytes = b"", cwd: Path | None = None, timeout_s: float = 120
    ) -> Answer:
        done = subprocess.run(
            ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", CLOCHE, *words],
            env=self.env(),
            input=stdin,
            cwd=cwd,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
        return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())


@dataclass(frozen=True)
class Left:
    """What a killed command left on `engine`: a run, and its cell, which lives."""

    engine: PrivateEngine
    home: Path
    run_id: str
    cell: str
    first: int

    @property
    def directory(self) -> Path:
        """The cell's."""
        return self.home / "cells" / self.cell

    def listed(self) -> list[str]:
        """Ids of the cells that the engine has of any home."""
        there = Engine(self.engine.host)
        try:
            return [one.labels[labels.CELL] for one in there.containers({labels.CELL: None})]
        finally:
            there.close()


@pytest.fixture(scope="module")
def other() -> Iterator[PrivateEngine]:
    with private_engine() as engine:
        client = Engine(engine.host)
        loaded_image(client)
        client.close()
        yield engine


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, other: PrivateEngine, image_id: str) -> Path:
    """With the package published, and ready for jobs on both engines."""
    folder = tmp_path_factory.mktemp("elsewhere")
    made = home_with_image(folder / "home", host=other.host)
    as_if_probed(Settings(home=made, docker_host=load().docker_host, runtime="runc"))
    done = Commands(made)("workflows", "publish", package(folder, "sleeper", SLEEPER), "--json")
    assert done.code == 0, done
    return made


@pytest.fixture
def left(home: Path, other: PrivateEngine, tmp_path: Path) -> Iterator[Left]:
    there = Commands(home, {"DOCKER_HOST": other.host})
    process = there.start("workflows", "run", "sleeper", "long", "--workspace", tmp_path)

    def begun() -> list[str]:
        return [run["run_id"] for run in there.runs() if (run["status"], run["counts"]["completed"]) == ("running", 1)]

    wait_for(lambda: len(begun()) == 1, timeout_s=60)
    (run_id,) = begun()
    end(process, number=signal.SIGKILL)
    (listed,) = (cell for cell in there("cells", "list", "--json").data["cells"] if cell["state"] == "running")
    client = Engine(other.host)
    first = int(client.inspect(listed["container"])["State"]["Pid"])
    client.close()
    yield Left(other, home, run_id, listed["cell_id"], first)
    there("cells", "reap", "--json")


@contextmanager
def out_of_reach(engine: PrivateEngine) -> Iterator[None]:
    """Nothing answers at the engine's address while the block runs; the engine and its cells go on."""
    socket = engine.root / "docker.sock"
    aside = socket.rename(engine.root / "aside.sock")
    try:
        yield
    finally:
        aside.rename(socket)


def test_a_cell_of_another_engine_is_ended_there_before_its_run_is_said_to_have_none(left: Left) -> None:
    here = FarAway(left.home)
    (listed,) = here("cells", "list", "--json").data["cells"]
    assert (listed["cell_id"], listed["owned"]) == (left.cell, False)
    assert listed["state"] == f"made elsewhere, at {left.engine.host}"
    cancelled = here("runs", "cancel", left.run_id, "--json")
    assert (cancelled.code, cancelled.data["status"]) == (0, "cancelled"), cancelled
    assert not alive(left.first)
    assert left.listed() == []
    assert not left.directory.exists()


def test_while_its_engine_cannot_be_asked_the_run_does_not_go_on_and_other_work_does(
    left: Left, tmp_path: Path
) -> None:
    here = FarAway(left.home)
    with out_of_reach(left.engine):
        resumed = here("runs", "resume", left.run_id, "--json")
        assert (resumed.code, resumed.error["code"]) == (3, "cell_elsewhere"), resumed
        assert left.engine.host in resumed.error["message"]
        assert f"DOCKER_HOST={left.engine.host}" in resumed.error["fix"]
        ran = here("workflows", "run", "sleeper", "short", "--workspace", tmp_path, "--json")
        assert (ran.code, ran.data["status"]) == (0, "completed"), ran
        reaped = here("cells", "reap", "--json")
        assert reaped.code == 3
        assert [one["cell_id"] for one in reaped.data["reaped"] if one["problem"]] == [left.cell]
        assert [cell["cell_id"] for cell in here("cells", "list", "--json").data["cells"]] == [left.cell]
    assert alive(left.first)
    assert here("runs", "show", left.run_id, "--json").data["status"] == "interrupted"
    assert here("runs", "cancel", left.run_id, "--json").code == 0
    assert left.listed() == []


def test_another_engine_that_took_its_address_is_not_taken_for_it(left: Left) -> None:
    here = FarAway(left.home)
    with out_of_reach(left.engine):
        socket = left.engine.root / "docker.sock"
        socket.symlink_to(load().docker_host.removeprefix("unix://") or "/var/run/docker.sock")
        try:
            refused = here("runs", "cancel", left.run_id, "--json")
        finally:
            socket.unlink()
    assert (refused.code, refused.error["code"]) == (3, "cell_elsewhere"), refused
    assert "another engine answers there" in refused.error["message"]
    assert alive(left.first)
    assert left.directory.is_dir()


def test_where_this_machine_saw_the_cell_it_is_ended_without_its_engine(left: Left) -> None:
    with out_of_reach(left.engine):
        cancelled = Commands(left.home)("runs", "cancel", left.run_id, "--json")
        assert (cancelled.code, cancelled.data["status"]) == (0, "cancelled"), cancelled
        assert not alive(left.first)


class At(SystemClock):
    """Shows one time of day."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    def now(self) -> datetime:
        return self._now


def test_a_cell_out_of_reach_is_gone_when_its_time_is_over_and_no_sooner(left: Left, engine: Engine) -> None:
    (left.directory / origin.SEEN).write_text("another machine")
    intent = intent_of(left.directory)
    assert intent is not None
    over = origin.over_at(intent)
    assert over > intent.created_at + timedelta(hours=1)
    os.kill(left.first, signal.SIGKILL)  # else it is found here and ended
    with out_of_reach(left.engine):
        for now, gone in ((over - timedelta(seconds=1), False), (over + timedelta(seconds=1), True)):
            sandbox = Sandbox(make_sandbox(left.home, engine).settings, At(now), engine)
            told = [(one.cell_id, one.problem) for one in sandbox.reap()]
            assert (told, left.directory.exists()) == (([(left.cell, "")], False) if gone else ([], True))


def test_a_record_of_before_engines_were_named_is_read_and_reaped(left: Left, engine: Engine) -> None:
    intent = intent_of(left.directory)
    assert intent is not None
    old: dict[str, Any] = intent.model_dump(mode="json", exclude={"engine", "engine_host"})
    (left.directory / "cell.json").write_text(type(intent)(**old).model_dump_json(exclude={"engine", "engine_host"}))
    read = intent_of(left.directory)
    assert read is not None
    assert (read.engine, read.cell) == ("", left.cell)
    sandbox = make_sandbox(left.home, engine)
    assert [(one.cell_id, one.problem) for one in sandbox.reap()] == [(left.cell, "")]
    assert not alive(left.first)


def test_a_cell_that_waits_on_another_engine_is_left_to_wait(
    home: Path, other: PrivateEngine, engine: Engine, tmp_path: Path
) -> None:
    there = Commands(home, {"DOCKER_HOST": other.host, "CLOCHE_WARM_CELLS": "1"})
    assert there("workflows", "run", "sleeper", "short", "--workspace", tmp_path, "--json").code == 0

    def waiting() -> set[str]:
        return {cell["cell_id"] for cell in there("cells", "list", "--json").data["cells"] if cell["idle"]}

    try:
        wait_for(lambda: len(waiting()) == 1, timeout_s=60)
        sandbox = make_sandbox(home, engine)
        assert sandbox.reap() == []
        assert {cell.cell_id for cell in sandbox.list_cells() if cell.idle} == waiting()
    finally:
        there("cells", "reap", "--idle", "--json")
