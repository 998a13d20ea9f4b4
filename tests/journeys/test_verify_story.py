"""A record held against the program that made it, through the command line: what is verified, what differs, what would break."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.clock import SystemClock
from engine.run.events import CellStarted, RunFinished
from engine.run.store import RunStore
from tests.helpers.commands import Commands, end, package
from tests.helpers.journals import changed, doctored

pytestmark = pytest.mark.sandbox

REPORT = """
    from cloche import now, parallel
    from cloche.programs import read

    from .helpers.constant import ANSWER


    def _size(name: str) -> int:
        return len(read(name)["text"])


    def report(task: str) -> dict[str, object]:
        sizes = parallel([lambda: _size("a.txt"), lambda: _size("b.txt")])
        for i in range(int(task)):
            read("a.txt", offset=i, limit=1)
        return {"sizes": sizes, "at": now(), "answer": ANSWER}
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "a.txt").write_text("a" * 5000)
    (folder / "b.txt").write_text("b" * 20)
    return folder


@pytest.fixture
def folder(cloche: Commands, tmp_path: Path) -> Path:
    made = package(tmp_path, "report", REPORT)
    published = cloche("workflows", "publish", made, "--json")
    assert published.code == 0, published
    return made


def run(cloche: Commands, workspace: Path, task: str = "3") -> str:
    ran = cloche("workflows", "run", "report", task, "--workspace", workspace, "--json")
    assert ran.code == 0, ran
    return str(ran.data["run_id"])


def publish(cloche: Commands, folder: Path, old: str, new: str) -> str:
    workflow = folder / "workflow.py"
    workflow.write_text(workflow.read_text().replace(old, new))
    published = cloche("workflows", "publish", folder, "--replace", "--json")
    assert published.code == 0, published
    return str(published.data["revision"])


def test_a_run_is_verified_whatever_became_of_its_workspace(cloche: Commands, folder: Path, workspace: Path) -> None:
    run_id = run(cloche, workspace)
    for path in workspace.iterdir():
        path.unlink()
    verified = cloche("runs", "verify", run_id)
    assert verified.code == 0, verified
    assert f"report {run_id}: verified; 6 of 6 calls, to its end" in verified.stdout
    told = cloche("runs", "verify", "--json").data
    assert (told["ok"], told["run_id"], told["whole"], told["differences"]) == (True, run_id, True, [])
    assert cloche("cells", "list", "--json").data["cells"] == []


def test_a_changed_record_and_another_image_are_named(cloche: Commands, folder: Path, workspace: Path) -> None:
    run_id = run(cloche, workspace)
    found = RunStore(cloche.home, clock=SystemClock()).open(run_id)
    lines = found.read()[0].lines
    (finished,) = [line for line in lines if isinstance(line.event, RunFinished)]
    (started,) = [line for line in lines if isinstance(line.event, CellStarted)]
    result = {**finished.event.body()["result"], "answer": 43}
    found = doctored(found, changed(finished.seq, result=result))
    doctored(found, changed(started.seq, image="sha256:" + "0" * 64))
    differs = cloche("runs", "verify", run_id, "--json")
    assert (differs.code, [one["what"] for one in differs.data["differences"]]) == (1, ["image", "result"])
    text = cloche("runs", "verify", run_id).stdout
    assert "✗ result  the program returns something else than recorded" in text
    assert '"answer":42' in text


def test_a_changed_byte_of_the_stored_snapshot_is_named_once(cloche: Commands, folder: Path, workspace: Path) -> None:
    run_id = run(cloche, workspace)
    digest = cloche("runs", "show", run_id, "--json").data["snapshot_digest"]
    source = cloche.home / "snapshots" / digest / "workflows" / "report" / "workflow.py"
    source.chmod(0o644)
    source.write_text(source.read_text().replace('"answer": ANSWER', '"answer": 43'))
    differs = cloche("runs", "verify", run_id, "--json")
    assert (differs.code, [one["what"] for one in differs.data["differences"]]) == (1, ["snapshot"])
    assert "made again from the catalog" in differs.data["differences"][0]["message"]
    assert cloche("runs", "verify", run_id).code == 0


def test_an_interrupted_run_is_verified_up_to_its_last_completed_call(
    cloche: Commands, folder: Path, workspace: Path
) -> None:
    process = cloche.start("workflows", "run", "report", "4000", "--workspace", workspace)
    run_id = cloche.wait_for_calls(50)
    end(process)
    verified = cloche("runs", "verify", run_id, "--json")
    assert (verified.code, verified.data["whole"]) == (0, False), verified
    assert verified.data["asked"] >= 50


def test_a_damaged_journal_stays_damage(cloche: Commands, folder: Path, workspace: Path) -> None:
    run_id = run(cloche, workspace)
    journal = RunStore(cloche.home, clock=SystemClock()).open(run_id).journal_path
    journal.write_bytes(journal.read_bytes().replace(b"a.txt", b"c.txt", 1))
    damaged = cloche("runs", "verify", run_id, "--json")
    assert (damaged.code, damaged.error["code"]) == (7, "journal_damaged")


def test_recorded_runs_are_held_against_a_new_revision(cloche: Commands, folder: Path, workspace: Path) -> None:
    first, second = run(cloche, workspace), run(cloche, workspace, "5")
    commented = publish(cloche, folder, '"answer": ANSWER', '"answer": ANSWER + 1')
    holds = cloche("workflows", "verify-runs", "report")
    assert holds.code == 0, holds
    assert "replays" in holds.stdout
    assert "2 replay, 0 break, 0 cannot be read" in holds.stderr
    broken = publish(cloche, folder, "offset=i, limit=1", "offset=i, limit=2")
    breaks = cloche("workflows", "verify-runs", "report", "--json")
    assert (breaks.code, breaks.data["ok"]) == (1, False)
    assert [row["run_id"] for row in breaks.data["runs"]] == [second, first]
    for row in breaks.data["runs"]:
        (difference,) = row["differences"]
        assert (row["revision"], difference["what"], difference["fn"]) == (broken, "argument", "read")
        assert difference["site"].startswith("workflow.py:")
        assert json.loads(difference["recorded"])["limit"] == 1
        assert json.loads(difference["asked"])["limit"] == 2
    table = cloche("workflows", "verify-runs", "report").stdout
    assert "breaks: argument" in table
    older = cloche("workflows", "verify-runs", "report", "--revision", commented[:12], "--limit", "1", "--json")
    assert (older.code, len(older.data["runs"])) == (0, 1)
    one = cloche("runs", "verify", first, "--revision", commented, "--json").data
    assert (one["ok"], "recorded revision returned" in one["notes"][0]) == (True, True)


def test_a_run_that_cannot_be_read_is_told_and_hides_no_other(cloche: Commands, folder: Path, workspace: Path) -> None:
    first, second = run(cloche, workspace), run(cloche, workspace)
    journal = RunStore(cloche.home, clock=SystemClock()).open(first).journal_path
    journal.write_bytes(journal.read_bytes().replace(b"a.txt", b"c.txt", 1))
    told = cloche("workflows", "verify-runs", "report", "--json")
    assert told.code == 1
    assert [(row["run_id"], row["ok"]) for row in told.data["runs"]] == [(second, True)]
    assert [(one["run_id"], one["code"]) for one in told.data["problems"]] == [(first, "journal_damaged")]


def test_what_is_not_there_is_not_verified(cloche: Commands, folder: Path, workspace: Path) -> None:
    assert cloche("runs", "verify", "20261130T120000Z-00000001", "--json").error["code"] == "run_not_found"
    run_id = run(cloche, workspace)
    missing = cloche("runs", "verify", run_id, "--revision", "0" * 40, "--json")
    assert (missing.code, missing.error["code"]) == (5, "unknown_revision")
    assert cloche("workflows", "verify-runs", "nothing", "--json").code == 5
