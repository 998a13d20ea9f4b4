"""Runs that earlier versions recorded are read, shown and gone on with (tests/helpers/recorded_runs.py made them)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from engine.run.claim import claimed
from engine.run.events import FORMAT, READABLE, RunStarted
from engine.run.folder import Run
from engine.run.projection import view_of
from engine.run.spec import parse_spec
from engine.run.status import FINAL
from tests.helpers.recorded_runs import KINDS, result_of, summary
from tests.helpers.runs import StillClock

RECORDED = Path(__file__).parents[1] / "fixtures" / "journal"
FOLDERS = sorted(path for path in RECORDED.glob("*/*") if path.is_dir())


@pytest.fixture(params=FOLDERS, ids=lambda path: f"{path.parent.name}-{path.name}")
def recorded(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Run]:
    """A copy, as a run in a home would be."""
    folder = tmp_path / "run"
    shutil.copytree(request.param, folder)
    spec = parse_spec((folder / "run.json").read_bytes(), path=folder / "run.json")
    return request.param, Run(folder, spec, StillClock())


def test_every_format_that_is_readable_has_recorded_runs() -> None:
    assert {int(path.parent.name) for path in FOLDERS} == set(READABLE)
    assert {path.name for path in FOLDERS if path.parent.name == str(FORMAT)} == set(KINDS)
    assert len([path for path in FOLDERS if path.parent.name == "1"]) == 16


def test_a_recorded_run_is_read_as_it_was(recorded: tuple[Path, Run]) -> None:
    source, run = recorded
    expected = json.loads((source / "summary.json").read_text())
    assert json.loads(json.dumps(summary(view_of(run), result_of(run)))) == expected


def test_a_recorded_run_that_is_not_over_can_be_gone_on_with(recorded: tuple[Path, Run]) -> None:
    _, run = recorded
    view = view_of(run)
    with claimed(run) as recorder:
        if view.status not in FINAL:
            recorder.record(RunStarted(pid=1, host="host", torn=recorder.torn))
    after = view_of(run)
    assert len(after.generations) == len(view.generations) + (view.status not in FINAL)
