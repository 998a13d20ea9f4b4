"""Runs whose container engine is killed, alone or with the run's process: an engine that comes back finds nothing of them for long."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from engine.run.status import Status
from tests.helpers.crash_cells import RealStage, kill_and_wait, real_stage
from tests.helpers.private_engine import PrivateEngine, private_engine
from tests.helpers.sandbox import alive

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.runc_only("as test_cell_restarts.py, with runs"),
]


@pytest.fixture(scope="module")
def private() -> Iterator[PrivateEngine]:
    with private_engine() as engine:
        yield engine


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory, private: PrivateEngine) -> Iterator[RealStage]:
    root = tmp_path_factory.mktemp("crash")
    with real_stage(root, private.host, private=private, programs=("sequential", "outputs")) as stage:
        yield stage


@pytest.mark.parametrize(
    ("point", "nth"),
    [("cell.intent", 1), ("cell.created", 1), ("cell.attested", 1), ("effect.done", 3), ("cell.finishing", 1)],
)
def test_an_engine_killed_under_a_run_costs_at_most_a_generation(point: str, nth: int, real: RealStage) -> None:
    trial = real.stage.trial("sequential")
    assert real.crash("engine", trial, point, nth)
    trial.to_the_end()
    trial.check_end()
    real.check_nothing_left(reap=True)


def test_while_the_engine_is_gone_a_resume_is_refused_and_changes_nothing(
    real: RealStage, private: PrivateEngine
) -> None:
    trial = real.stage.trial("sequential")
    assert trial.kill_at("effect.done", 3)
    (pid,) = real.cell_pids()
    private.signal(signal.SIGKILL)
    kill_and_wait(pid)
    before = trial.run.journal_path.read_bytes()
    assert trial.resume() == 2
    assert trial.run.journal_path.read_bytes() == before
    assert trial.view().status is Status.INTERRUPTED
    private.call("start")
    trial.to_the_end()
    trial.check_end()
    real.check_nothing_left()


def test_a_cell_that_outlived_its_engine_and_its_owner_is_ended_before_the_run_goes_on(
    real: RealStage, private: PrivateEngine
) -> None:
    trial = real.stage.trial("outputs")
    assert trial.kill_at("effect.done", 2)
    (pid,) = real.cell_pids()
    private.signal(signal.SIGKILL)
    private.call("start")
    trial.to_the_end()
    trial.check_end()
    real.check_nothing_left()
    assert not alive(pid)
