"""Runs in real cells, whose process or cell is killed: the next resume goes on from the record, and no container stays."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from engine.sandbox.docker import Engine
from engine.sandbox.policy import Runtime
from tests.helpers.crash_cells import RealStage, Victim, one_of_each, real_stage, while_a_cell_lives
from tests.helpers.crash_checks import chosen_seed

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.runc_only(
        "minutes; the record is the host's, and the moments at which a runtime is at work are tried under both"
    ),
]

PROGRAMS = ("sequential", "large", "outputs", "handled", "branches")


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory, engine: Engine, runtime: Runtime) -> Iterator[RealStage]:
    root = tmp_path_factory.mktemp("crash")
    with real_stage(root, engine.host, programs=PROGRAMS, runtime=runtime) as stage:
        yield stage


def crash_each(real: RealStage, victim: Victim, program: str, moments: list[tuple[str, int]]) -> int:
    """Kill the victim at each of these moments, each in a run of its own; how many there were."""
    for point, nth in moments:
        trial = real.stage.trial(program)
        killed = real.crash(victim, trial, point, nth)
        assert killed, f"{victim} was not killed at {point} {nth}: {trial.standing()}"
        trial.to_the_end()
        trial.check_end()
        real.check_nothing_left()
    return len(moments)


@pytest.mark.both_runtimes
@pytest.mark.parametrize(
    ("victim", "point"),
    [
        ("orchestrator", "cell.created"),
        ("cell", "cell.started"),
        ("cell", "effect.done"),
    ],
)
def test_killed_while_its_runtime_is_at_work_the_run_goes_on_in_another_cell(
    real: RealStage, victim: Victim, point: str
) -> None:
    assert crash_each(real, victim, "outputs", [(point, 1)]) == 1


def test_killed_at_any_named_moment_of_a_cell_the_process_leaves_no_cell_behind(real: RealStage) -> None:
    moments = real.stage.moments("outputs")
    chosen = [(name, nth) for name, nth in one_of_each(moments) if name.startswith(("cell", "reply", "log", "output"))]
    assert crash_each(real, "orchestrator", "outputs", chosen) > 12


def test_killed_while_it_proves_an_older_cell_gone_it_is_proven_by_the_next(real: RealStage) -> None:
    for point in ("gone.before", "gone.proven"):
        trial = real.stage.trial("sequential")
        assert trial.kill_at("effect.done", 2)
        assert len(real.cell_pids()) == 1
        assert trial.kill_at(point)
        trial.to_the_end()
        trial.check_end()
        real.check_nothing_left()


def test_a_cell_killed_at_any_named_moment_is_the_sandbox_failing_and_the_run_goes_on(real: RealStage) -> None:
    moments = one_of_each(while_a_cell_lives(real.stage.moments("sequential")))
    assert crash_each(real, "cell", "sequential", moments) > 8


def test_kills_at_random_moments_of_real_cells_repeat_and_lose_nothing(real: RealStage) -> None:
    seed = chosen_seed()
    draw, kills = Random(seed), 0
    while kills < 20:
        trial = real.stage.trial(draw.choice(PROGRAMS))
        while trial.kills < 5 and trial.kill_after(draw.uniform(0, 1.2)):
            continue
        kills += trial.kills
        trial.to_the_end()
        trial.check_end()
    real.check_nothing_left()
    print(f"{kills} kills, seed {seed}")
