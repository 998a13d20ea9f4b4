"""Cancelling runs in real cells: a process that the program left behind beats no more, and nothing of the cell is left anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import anyio
import pytest

from engine.app import App, open_app
from engine.run.status import Status
from engine.run.view import RunView
from engine.sandbox.docker import Engine
from engine.sandbox.policy import Runtime
from tests.helpers.cancelling import cancelled_at, check_cancelled
from tests.helpers.chaos import Trial
from tests.helpers.crash_cells import RealStage, kill_and_wait, real_stage
from tests.helpers.sandbox import alive, wait_for

pytestmark = [pytest.mark.sandbox, pytest.mark.both_runtimes]

PROMISED_S = 2.0
TRIES = 3
"""A machine that is busy with other things keeps the promise in one of so many; one that waits for something never does."""

BUSY_S = 30.0
"""For what is tried once."""

FOREVER = {"pause_s": 600}


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory, engine: Engine, runtime: Runtime) -> Iterator[RealStage]:
    root = tmp_path_factory.mktemp("cancel")
    with real_stage(root, engine.host, programs=("beating", "branches"), runtime=runtime) as stage:
        yield stage


@pytest.fixture(scope="module")
def app(real: RealStage) -> Iterator[App]:
    """The canceller's."""
    settings = real.sandbox.settings.model_copy(update={"warm_cells": 0})
    with open_app(settings) as opened:
        yield opened


@dataclass(frozen=True)
class Footprint:
    """What a cell is to the machine: processes, each with its start time, and directories of its cgroups."""

    processes: frozenset[tuple[int, str]]
    cgroups: frozenset[Path]

    @classmethod
    def of(cls, real: RealStage) -> Footprint:
        """Of the one cell that lives."""
        (first,) = real.cell_pids()
        cgroups = frozenset(
            Path("/sys/fs/cgroup") / controllers.removeprefix("name=") / path.lstrip("/")
            for _, controllers, path in (
                line.split(":", 2) for line in Path(f"/proc/{first}/cgroup").read_text().splitlines()
            )
            if path != "/"
        )
        there = frozenset(path for path in cgroups if (path / "cgroup.procs").exists())
        assert there
        pids = {int(pid) for path in there for pid in (path / "cgroup.procs").read_text().split()}
        return cls(frozenset((pid, started(pid)) for pid in pids), there)

    def is_gone(self) -> bool:
        """True when neither is there any more."""
        return not any(alive(pid) and started(pid) == at for pid, at in self.processes) and not any(
            path.exists() for path in self.cgroups
        )


def started(pid: int) -> str:
    """When a process was started, in the kernel's own count; "" for one that is not there."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def beats(trial: Trial) -> int:
    """How often the process that the program left behind has spoken."""
    return len(trial.run.log_text("stdout")) // len("beat")


def start_beating(real: RealStage) -> tuple[Trial, Footprint]:
    """A run with two branches in calls that take for ever, and a process beside them that beats."""
    trial = real.stage.trial("beating")
    assert trial.stop_at("effect.before", 3, **FOREVER)
    real.stage.server.go_on()
    wait_for(lambda: beats(trial) >= 2)
    return trial, Footprint.of(real)


def test_a_beating_process_stops_within_two_seconds_and_nothing_of_its_cell_is_left(real: RealStage, app: App) -> None:
    assert any(cancel_one_that_beats(real, app) < PROMISED_S for _ in range(TRIES))


def cancel_one_that_beats(real: RealStage, app: App) -> float:
    """The seconds from asking to the answer."""
    trial, footprint = start_beating(real)
    assert len(footprint.processes) >= 3
    seconds = cancel(trial, app)
    assert footprint.is_gone()
    real.check_nothing_left()
    assert real.stage.server.wait() == "ended"
    assert [execution.key.fn for execution in trial.executions()] == ["read"]
    heard = beats(trial)
    check_cancelled(trial, by=lambda _: anyio.run(app.cancel, trial.job.run_id))
    assert beats(trial) == heard
    return seconds


def cancel(trial: Trial, app: App) -> float:
    """Seconds from asking to the answer."""
    asked = monotonic()
    assert anyio.run(app.cancel, trial.job.run_id).status is Status.CANCELLED
    return monotonic() - asked


def test_after_its_owner_was_killed_a_beating_process_stops_within_two_seconds(real: RealStage, app: App) -> None:
    assert any(cancel_one_without_an_owner(real, app) < PROMISED_S for _ in range(TRIES))


def cancel_one_without_an_owner(real: RealStage, app: App) -> float:
    """The seconds from asking to the answer."""
    trial, footprint = start_beating(real)
    real.stage.server.kill()
    assert not footprint.is_gone()
    seconds = cancel(trial, app)
    assert footprint.is_gone()
    real.check_nothing_left()
    check_cancelled(trial, by=lambda _: anyio.run(app.cancel, trial.job.run_id))
    return seconds


@pytest.mark.runc_only("crashes at these moments are tried under both, and what is ended is the same")
@pytest.mark.parametrize("point", ["cell.opening", "cell.intent", "cell.created", "cell.started", "cell.attested"])
def test_cancelled_while_a_cell_is_opened_no_code_is_executed(real: RealStage, app: App, point: str) -> None:
    def by(trial: Trial) -> RunView:
        return anyio.run(app.cancel, trial.job.run_id)

    trial = real.stage.trial("beating")
    assert cancelled_at(trial, point, by=by) < BUSY_S
    check_cancelled(trial, by=by)
    assert (trial.executions(), beats(trial)) == ([], 0)
    real.check_nothing_left()


@pytest.mark.runc_only("what is cancelled here is a run between calls; the cell is ended as in the other tests")
@pytest.mark.parametrize(
    ("point", "nth"),
    [("cell.delivered", 1), ("effect.before", 1), ("effect.before", 2), ("effect.before", 3), ("reply.sent", 1)],
)
def test_cancelled_at_a_moment_of_its_program_the_cell_is_gone_in_time(
    real: RealStage, app: App, point: str, nth: int
) -> None:
    def by(trial: Trial) -> RunView:
        return anyio.run(app.cancel, trial.job.run_id)

    trial = real.stage.trial("beating")
    assert cancelled_at(trial, point, nth, by=by, **FOREVER) < BUSY_S
    check_cancelled(trial, by=by)
    real.check_nothing_left()


@pytest.mark.runc_only("what is cancelled here is a run between calls; the cell is ended as in the other tests")
@pytest.mark.parametrize("point", ["gone.before", "cell.delivered", "reply.before"])
def test_cancelled_while_it_goes_on_after_a_crash_it_leaves_nothing(real: RealStage, app: App, point: str) -> None:
    def by(trial: Trial) -> RunView:
        return anyio.run(app.cancel, trial.job.run_id)

    trial = real.stage.trial("branches")
    assert trial.kill_at("effect.done", 3)
    executions = trial.executions()
    assert cancelled_at(trial, point, by=by, pause_s=1.0) < BUSY_S
    check_cancelled(trial, by=by)
    assert trial.executions() == executions
    real.check_nothing_left()


@pytest.mark.runc_only("what is cancelled here is a run between calls; the cell is ended as in the other tests")
@pytest.mark.parametrize("point", ["cell.finishing", "cell.killed", "cell.removed", "cell.finished"])
def test_cancelled_while_its_cell_ends_a_run_stays_completed(real: RealStage, app: App, point: str) -> None:
    trial = real.stage.trial("branches")
    assert cancelled_at(trial, point, by=lambda trial: anyio.run(app.cancel, trial.job.run_id)) < BUSY_S
    trial.check_end()
    real.check_nothing_left()


@pytest.mark.runc_only("there is no cell when it is cancelled")
def test_cancelled_while_it_waits_without_a_cell_it_executes_nothing_more(real: RealStage, app: App) -> None:
    trial = real.stage.trial("branches")
    trial.start(suspend_after_s=0.5, **FOREVER)
    wait_for(lambda: trial.exists and trial.view().status is Status.WAITING)
    real.check_nothing_left()
    assert cancel(trial, app) < BUSY_S
    assert real.stage.server.wait() == "ended"
    assert trial.executions() == []
    check_cancelled(trial, by=lambda _: anyio.run(app.cancel, trial.job.run_id))


def test_cancelled_after_its_cell_was_lost_it_waits_for_its_calls_no_longer(real: RealStage, app: App) -> None:
    trial, footprint = start_beating(real)
    for pid in real.cell_pids():
        kill_and_wait(pid)
    assert cancel(trial, app) < BUSY_S
    assert footprint.is_gone()
    assert real.stage.server.wait() == "ended"
    check_cancelled(trial, by=lambda _: anyio.run(app.cancel, trial.job.run_id))
