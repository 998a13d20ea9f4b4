"""Promises about real cells that belong to no single part: the interpreter, a frozen cell, and how fast a cancelled one is gone."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from time import monotonic

import pytest
from cloche_guest import codec

from engine.clock import SystemClock
from engine.errors import ExchangeError
from engine.sandbox import cell as cell_module
from engine.sandbox.cell import open_cell
from engine.sandbox.docker import Engine
from engine.sandbox.frames import Call
from engine.sandbox.jobs import RunJob
from engine.sandbox.outcome import Cause
from engine.sandbox.service import Sandbox
from tests.helpers.raw_engine import ask_engine
from tests.helpers.sandbox import containers_of, run_package, running, snapshot, tell

pytestmark = [pytest.mark.sandbox, pytest.mark.anyio, pytest.mark.both_runtimes]


async def test_the_interpreter_starts_from_nothing_and_hashes_the_same_each_time(
    sandbox: Sandbox, image_id: str, tmp_path: Path
) -> None:
    body = """
        import os, sys, time

        def sample(task):
            flags = sys.flags
            told = [flags.no_site, flags.no_user_site, flags.safe_path, flags.dont_write_bytecode, flags.utf8_mode]
            places = sorted(path for path in sys.path if "packages" in path)
            names = sorted(set(os.environ) - {"HOSTNAME"})
            return [told, places, names, time.tzname[0], sys.getfilesystemencoding(), hash("a"), list({"x", "y", "z", "w"})]
    """
    package = snapshot(tmp_path / "s", body)
    first = (await run_package(sandbox, image_id, package)).value
    assert first[:5] == [
        [1, 1, True, 1, 1],
        [],
        ["HOME", "LANG", "LC_ALL", "PATH", "PYTHONHASHSEED", "TZ"],
        "UTC",
        "utf-8",
    ]
    assert (await run_package(sandbox, image_id, package)).value == first


WAITING = """
    from cloche import llm

    def sample(task):
        return llm("wait")
"""


class LaterClock(SystemClock):
    """A day ahead."""

    def now(self) -> datetime:
        return super().now() + timedelta(days=1)


async def test_a_frozen_cell_is_ended_by_the_reaper(
    sandbox: Sandbox, engine: Engine, image_id: str, tmp_path: Path
) -> None:
    async with running(sandbox, image_id, snapshot(tmp_path / "s", WAITING)) as cell:
        while not isinstance(await cell.receive(), Call):
            pass
        ask_engine(engine.host, "POST", f"/containers/{cell.container}/pause")
        (reaped,) = Sandbox(sandbox.settings, LaterClock(), engine).reap()
        assert (reaped.cell_id, reaped.why, reaped.problem) == (cell.cell_id, "expired", "")
        assert not engine.exists(cell.container)


async def test_a_cell_that_does_not_take_its_job_is_the_sandbox_failing_and_is_ended(
    sandbox: Sandbox, engine: Engine, image_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cell_module, "TAKEN_S", 0.5)
    async with open_cell(sandbox, image_id=image_id, kind="run", deadline_s=60) as cell:
        ask_engine(engine.host, "POST", f"/containers/{cell.container}/pause")
        await cell.deliver(RunJob("sample", codec.encode(None), "00" * 16, 60), snapshot(tmp_path / "s", WAITING))
        with pytest.raises(ExchangeError) as lost:
            await cell.receive()
        end = await cell.finish()
        assert not engine.exists(cell.container)
    assert lost.value.code == "job.not_taken"
    assert (end.cause, end.detail, end.sandbox_failed) == (Cause.SUPERVISOR_LOST, "job.not_taken", True)


async def test_a_cancelled_cell_is_proven_gone_within_two_seconds(
    sandbox: Sandbox, engine: Engine, image_id: str, tmp_path: Path
) -> None:
    body = """
        import os, signal, time

        def sample(task):
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            for _ in range(20):
                if os.fork() == 0:
                    os.setsid()
                    break
            while True:
                time.sleep(1)
    """
    package = snapshot(tmp_path / "s", body)

    async def seconds_to_cancel() -> float:
        async with running(sandbox, image_id, package) as cell:
            await cell.receive()
            begun = monotonic()
            await cell.cancel("asked by the owner")
            story = await tell(cell)
            assert not engine.exists(cell.container)
            taken = monotonic() - begun
        assert story.ended.cause is Cause.CANCELLED
        assert containers_of(sandbox) == []
        return taken

    # a machine that is busy with other things keeps it in one of three tries
    assert any([await seconds_to_cancel() < 2 for _ in range(3)])


@pytest.mark.runc_only("the host's own clock and sums")
async def test_the_times_of_a_cell_add_up_to_what_it_took(sandbox: Sandbox, image_id: str, tmp_path: Path) -> None:
    package = snapshot(tmp_path / "s", "import time\n\n\ndef sample(task):\n    time.sleep(0.5)\n")
    begun = monotonic()
    used = (await run_package(sandbox, image_id, package)).ended.accounting
    taken = monotonic() - begun
    parts = (used.queue_s, used.start_s, used.run_s, used.teardown_s)
    assert min(parts) > 0
    assert used.run_s >= 0.5
    assert 0.5 * taken < sum(parts) <= taken


@pytest.mark.runc_only("the same image, which runs nothing here")
async def test_the_image_is_small(engine: Engine, image_id: str) -> None:
    assert engine.inspect_image(image_id)["Size"] < 60_000_000
