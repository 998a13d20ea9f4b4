"""A run whose process is killed at any moment goes on from its record: nothing twice, nothing lost, nothing passed over."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from engine.run.store import RunStore
from tests.helpers.chaos import Stage
from tests.helpers.crash_checks import chosen_seed
from tests.helpers.crash_programs import SCRIPTED
from tests.helpers.crash_server import MOMENTS, ROOT, CrashServer
from tests.helpers.ledger import Ledger
from tests.helpers.runs import StillClock, make_spec


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with Ledger() as ledger, CrashServer() as server:
        yield Stage(tmp_path_factory.mktemp("home"), server, ledger)


@pytest.mark.parametrize("program", SCRIPTED)
def test_killed_at_any_moment_it_ends_as_if_nothing_had_happened(stage: Stage, program: str) -> None:
    moments = stage.moments(program)
    assert len(moments) > 30
    for point, nth in moments:
        trial = stage.trial(program)
        assert trial.kill_at(point, nth), f"{point} {nth} did not come"
        trial.to_the_end()
        trial.check_end()


def test_killed_while_it_goes_on_from_a_crash_it_still_ends_so(stage: Stage) -> None:
    """The second generation replays two calls, finds one unknown and executes the rest."""
    for point, nth in stage.moments("sequential")[::2]:
        trial = stage.trial("sequential")
        assert trial.kill_at("effect.done", 3)
        if trial.kill_at(point, nth):
            assert trial.kills == 2
        trial.to_the_end()
        trial.check_end()


def test_what_may_not_be_done_twice_waits_for_a_person_however_often_it_is_asked(stage: Stage) -> None:
    trial = stage.trial("sequential")
    assert trial.kill_at("effect.done", 4)
    for _ in range(3):
        assert trial.resume() == 0
        assert trial.view().reason == "unknown_outcome"
    assert len(trial.executions()) == 4
    trial.to_the_end()
    trial.check_end()


def test_a_run_that_was_never_wholly_made_goes_away_in_time(stage: Stage) -> None:
    trial = stage.trial("sequential")
    assert trial.kill_at("run.filled")
    assert not trial.exists
    parent = Path(trial.job.home) / "sessions" / "default" / "workflows"
    assert [path.name for path in parent.glob(".*")] == [f".new-{trial.job.run_id}"]
    for hours, left in ((0, 1), (2, 0)):
        clock = StillClock(at=datetime.now(UTC) + timedelta(hours=hours))
        RunStore(stage.home, clock=clock).create(make_spec(run_id=f"20261130T120000Z-ffffff{hours:02x}"))
        assert len(list(parent.glob(".*"))) == left


def test_two_hundred_kills_at_random_moments_repeat_and_lose_nothing(stage: Stage) -> None:
    seed = chosen_seed()
    draw, kills = Random(seed), 0
    while kills < 180:
        trial = stage.trial(draw.choice(list(SCRIPTED)))
        while trial.kills < 5 and trial.kill_after(draw.uniform(0, 0.06)):
            continue
        kills += trial.kills
        trial.to_the_end()
        trial.check_end()
    print(f"{kills} kills, seed {seed}")


def test_the_page_tells_of_every_moment_and_of_no_other() -> None:
    text = (ROOT / "docs" / "reference" / "crashes.md").read_text(encoding="utf-8")
    rows = text.partition("## Moments")[2].partition("## Figures")[0]
    firsts = [line.split("|")[1] for line in rows.splitlines() if line.startswith("| `")]
    assert sorted(re.findall(r"`([a-z.]+)`", " ".join(firsts))) == sorted(MOMENTS)
