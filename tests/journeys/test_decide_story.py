"""What only a person can say about a call, through the command line: answers to questions, and outcomes that nobody saw."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.clock import SystemClock
from engine.run.calls import CallKey
from engine.run.claim import claimed
from engine.run.events import CallStarted, CallUnknown
from engine.run.store import RunStore
from tests.helpers.commands import Commands, package
from tests.helpers.journals import doctored

pytestmark = pytest.mark.sandbox

SHIP = """
    from cloche import CallError, ask, now, parallel

    from .helpers.constant import ANSWER


    def _asked(what: str) -> object:
        return ask(f"How many {what}?", {"type": "integer", "minimum": 0})


    def ship(task: str) -> dict[str, object]:
        names = task.split()
        try:
            counts = parallel([lambda name=name: _asked(name) for name in names])
        except CallError as error:
            counts = [error.type_name]
        return {"counts": counts, "at": now(), "answer": ANSWER}
"""


@pytest.fixture
def published(cloche: Commands, tmp_path: Path) -> None:
    folder = package(tmp_path, "ship", SHIP, permissions='"ask"')
    done = cloche("workflows", "publish", folder, "--json")
    assert done.code == 0, done


def questions(cloche: Commands, run_id: str) -> list[int]:
    def below(nodes: list[dict[str, object]]) -> list[int]:
        found: list[int] = []
        for node in nodes:
            if node["kind"] != "call":
                found += below(node["items"])  # type: ignore[arg-type]
            elif node["status"] == "waiting":
                found.append(int(str(node["seq"])))
        return found

    return below(cloche("runs", "show", run_id, "--json").data["calls"])


def test_a_run_waits_without_a_cell_until_its_questions_are_answered(
    cloche: Commands, published: None, tmp_path: Path
) -> None:
    waits = cloche("workflows", "run", "ship", "boxes crates", "--workspace", tmp_path, "--json")
    assert (waits.code, waits.data["status"], waits.data["reason"]) == (1, "waiting", "person"), waits
    run_id = waits.data["run_id"]
    assert cloche("cells", "list", "--json").data["cells"] == []
    first, second = questions(cloche, run_id)
    text = cloche("runs", "show", run_id).stdout
    assert "◌ ask(question=" in text
    assert f"next    cloche runs answer {run_id} {first} --value JSON" in text
    assert "parallel workflow.ship #1 branch 2" in text

    unnamed = cloche("runs", "answer", run_id, "--value", "3", "--json")
    assert (unnamed.code, unnamed.error["code"]) == (2, "no_question")
    bad = cloche("runs", "answer", run_id, str(second), "--value", "-1", "--json")
    assert (bad.code, "does not fit" in bad.error["message"]) == (2, True)
    later = cloche("runs", "answer", run_id, str(second), "--value", "7", "--later", "--json")
    assert (later.code, later.data["status"]) == (0, "waiting")
    done = cloche("runs", "answer", run_id, "--value", "3", "--json")
    assert (done.code, done.data["status"]) == (0, "completed"), done
    assert done.data["value"]["counts"] == [3, 7]
    assert "answered" in cloche("runs", "show", run_id).stdout
    assert cloche("runs", "verify", run_id, "--json").code == 0


def test_a_call_of_unknown_outcome_is_settled_by_a_person(cloche: Commands, published: None, tmp_path: Path) -> None:
    run_id, call = unknown(cloche, tmp_path)
    failed = cloche("runs", "decide", run_id, str(call), "fail", "--resume", "--json")
    assert (failed.code, failed.data["value"]["counts"]) == (0, ["UnknownOutcome"]), failed
    text = cloche("runs", "show", run_id).stdout
    assert "decided that it counts as failed" in text
    assert "UnknownOutcome:" in text
    assert cloche("runs", "verify", run_id, "--json").code == 0


def test_a_value_is_given_for_a_call_of_unknown_outcome(cloche: Commands, published: None, tmp_path: Path) -> None:
    run_id, call = unknown(cloche, tmp_path)
    told = cloche("runs", "decide", run_id, str(call), "value", "--value", "12")
    assert told.code == 0
    assert f"cloche runs resume {run_id}" in told.stderr
    assert cloche("runs", "decide", run_id, str(call), "rerun", "--json").error["code"] == "outcome_known"
    resumed = cloche("runs", "resume", run_id, "--json")
    assert (resumed.code, resumed.data["value"]["counts"]) == (0, [12]), resumed


def unknown(cloche: Commands, workspace: Path) -> tuple[str, int]:
    """A run whose only question was under way, as a call with effects would be, when its owner died."""
    waits = cloche("workflows", "run", "ship", "boxes", "--workspace", workspace, "--json")
    run = RunStore(cloche.home, clock=SystemClock()).open(waits.data["run_id"])
    (record,) = run.read()[1].records.values()
    assert isinstance(record.key, CallKey)
    kept = doctored(run, lambda lines: [line for line in lines if line.seq < record.seq])
    with claimed(kept) as recorder:
        started = CallStarted(**{**record.started.body(), "kind": ""})
        (line,) = recorder.record(started)
        recorder.record(CallUnknown(of=line.seq))
    return kept.run_id, line.seq
