"""`cloche runs decide` and `answer` as a person uses them, without an engine: what is recorded, what is refused and how."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from cli.app import invoke
from engine.files import lock
from engine.run.calls import Effects
from engine.run.claim import claimed
from engine.run.events import CallCompleted, CallFailed, CallStarted, CellEnded, CellStarted, Decision, RunStarted
from engine.run.folder import Run
from engine.run.view import calls_of
from engine.sandbox.outcome import Cause
from tests.helpers.cells import Answers, Die, ScriptedCells, Still, ask, begin
from tests.helpers.runs import Bench

Playing = Generator[Any, Any, Any]


class Shell:
    """Runs verbs in a home; `told` and `data` are what the last one printed."""

    def __init__(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.bench = Bench(home)
        self._capsys = capsys
        self.told = ""
        self.data: Any = None

    def __call__(self, *words: object) -> int:
        self._capsys.readouterr()
        code = invoke([str(word) for word in words])
        printed = self._capsys.readouterr()
        self.told = printed.out + printed.err
        self.data = json.loads(printed.out) if "--json" in words else None
        return code

    @property
    def code(self) -> str:
        """Of the error object."""
        return str(self.data["error"]["code"])


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    monkeypatch.setenv("CLOCHE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CLOCHE_DOCKER_HOST", f"unix://{tmp_path}/no-engine.sock")
    return Shell(tmp_path / "home", capsys)


def unknown(bench: Bench) -> tuple[Run, int]:
    """A run that stopped because nobody knows how its second call ended, and the number of that call."""

    def dies() -> Playing:
        yield ask("llm", prompt="one")
        yield Die(Cause.SUPERVISOR_LOST)

    def program() -> Playing:
        first = yield ask("llm", prompt="one")
        return [first, (yield ask("deploy", prompt="two"))]

    run = bench.create()
    handlers = {"llm": Answers(lambda _: 1), "deploy": Answers(lambda _: 2, effects=Effects.SOME)}
    cells = ScriptedCells([program])
    bench.drive(run, ScriptedCells([dies]), handlers)
    # the owner dies after it began the second call
    other = bench.create(run_id="20261130T120000Z-0000000f")
    bench.drive(other, cells, handlers)
    (_, second) = other.read()[1].records.values()
    with claimed(run) as recorder:
        recorder.record(RunStarted(pid=1, host="gone"))
        recorder.record(CellStarted(cell="c" + "f" * 16))
        (line,) = recorder.record(CallStarted(**second.started.body()))
        recorder.record(CellEnded(cell="c" + "f" * 16, cause="owner_lost"))
    return run, line.seq


def waiting(bench: Bench, questions: int = 1) -> tuple[Run, list[int]]:
    """A run that waits for answers, and the numbers of its questions."""

    def program() -> Playing:
        for i in range(1, questions + 1):
            scope = f"/parallel@workflow.main[1.{i}]"
            yield begin("ask", scope=scope, question="How many?", schema={"type": "integer"})
        for _ in range(questions):
            yield Still()

    run = bench.create()
    view = bench.drive(run, ScriptedCells([program]), {"ask": Answers(lambda _: None, kind="person")})
    return run, [call.seq for call in calls_of(view.calls)]


def events(run: Run, kind: type) -> list[Any]:
    return [line.event for line in run.read()[0].lines if isinstance(line.event, kind)]


# decide


def test_a_decision_to_make_a_call_again_is_recorded_with_who_made_it(shell: Shell) -> None:
    run, call = unknown(shell.bench)
    assert shell("runs", "decide", run.run_id, call, "rerun") == 0
    assert f"cloche runs resume {run.run_id}" in shell.told
    (decision,) = events(run, Decision)
    assert (decision.what, decision.of) == ("rerun", call)
    assert decision.by


def test_a_call_that_counts_as_failed_is_raised_in_the_program(shell: Shell) -> None:
    run, call = unknown(shell.bench)
    assert shell("runs", "decide", run.run_id, call, "fail", "--json") == 0
    (failed,) = events(run, CallFailed)
    assert (failed.of, failed.type) == (call, "UnknownOutcome")
    told = calls_of_json(shell.data["calls"])
    assert [one["status"] for one in told] == ["completed", "failed"]
    assert told[-1]["decisions"][0]["what"] == "treat-as-failed"


def calls_of_json(nodes: list[Any]) -> list[Any]:
    return [call for node in nodes for call in ([node] if node["kind"] == "call" else calls_of_json(node["items"]))]


@pytest.mark.parametrize(
    ("given", "recorded"),
    [
        (["--value", '{"rows": [1, 2.5, null]}'], {"rows": [1, 2.5, None]}),
        (["--value", '"text"'], "text"),
        (["--value", "null"], None),
        (["--value", '{"$x": 1}'], {"$dict": [["$x", 1]]}),
        (["--value", '{"$tuple": [1]}', "--codec"], {"$tuple": [1]}),
    ],
)
def test_a_value_is_taken_for_the_result(shell: Shell, given: list[str], recorded: Any) -> None:
    run, call = unknown(shell.bench)
    assert shell("runs", "decide", run.run_id, call, "value", *given) == 0
    assert events(run, CallCompleted)[-1].result == recorded


def test_a_value_comes_from_a_file_too(shell: Shell, tmp_path: Path) -> None:
    run, call = unknown(shell.bench)
    (tmp_path / "value.json").write_text('{"from": "a file"}')
    assert shell("runs", "decide", run.run_id, call, "value", "--value-file", tmp_path / "value.json") == 0
    assert events(run, CallCompleted)[-1].result == {"from": "a file"}


@pytest.mark.parametrize(
    "words",
    [
        ["value"],
        ["value", "--value", "not json"],
        ["value", "--value", "NaN"],
        ["value", "--value", '"\\ud800"'],
        ["value", "--value", "1", "--value-file", "x"],
        ["value", "--value-file", "/no/such/file"],
        ["value", "--value", '{"$nothing": 1}', "--codec"],
        ["rerun", "--value", "1"],
        ["skip"],
    ],
)
def test_a_decision_that_is_none_changes_nothing(shell: Shell, words: list[str]) -> None:
    run, call = unknown(shell.bench)
    before = run.journal_path.read_bytes()
    assert shell("runs", "decide", run.run_id, call, *words, "--json") == 2
    assert shell.code == "usage"
    assert run.journal_path.read_bytes() == before


def test_what_cannot_be_decided_says_why_and_what_to_do(shell: Shell) -> None:
    run, call = unknown(shell.bench)
    completed = next(iter(run.read()[1].records))
    assert shell("runs", "decide", run.run_id, 999, "rerun", "--json") == 5
    assert (shell.code, "--all" in shell.data["error"]["fix"]) == ("call_not_found", True)
    assert shell("runs", "decide", run.run_id, completed, "rerun", "--json") == 4
    assert (shell.code, f"--from {completed}" in shell.data["error"]["fix"]) == ("outcome_known", True)
    with lock(run.folder / "run.lock"):
        assert shell("runs", "decide", run.run_id, call, "rerun", "--json") == 4
    assert shell.code == "run_owned"


def test_nothing_is_decided_about_a_run_that_is_over(shell: Shell) -> None:
    run = shell.bench.create()

    def program() -> Playing:
        return (yield ask("llm", prompt="one"))

    view = shell.bench.drive(run, ScriptedCells([program]), {"llm": Answers(lambda _: 1)})
    assert shell("runs", "decide", run.run_id, calls_of(view.calls)[0].seq, "rerun", "--json") == 4
    assert shell.code == "run_ended_already"


def test_a_question_is_answered_and_not_decided(shell: Shell) -> None:
    run, (call,) = waiting(shell.bench)
    assert shell("runs", "decide", run.run_id, call, "rerun", "--json") == 2
    assert (shell.code, f"answer {run.run_id} {call}" in shell.data["error"]["fix"]) == ("call_is_question", True)


# answer


def test_the_only_question_is_answered_without_its_number(shell: Shell) -> None:
    run, (call,) = waiting(shell.bench)
    assert shell("runs", "answer", run.run_id, "--value", "7", "--later") == 0
    assert [(one.of, one.result) for one in events(run, CallCompleted)] == [(call, 7)]
    assert shell("runs", "answer", run.run_id, "--value", "7", "--later", "--json") == 2
    assert shell.code == "no_question"
    assert shell("runs", "answer", run.run_id, call, "--value", "7", "--later", "--json") == 4
    assert shell.code == "outcome_known"


def test_of_several_questions_one_is_named(shell: Shell) -> None:
    run, (first, second) = waiting(shell.bench, 2)
    assert shell("runs", "answer", run.run_id, "--value", "7", "--later", "--json") == 2
    assert f"{first}, {second}" in shell.data["error"]["message"]
    assert shell("runs", "answer", run.run_id, second, "--value", "7", "--later") == 0
    assert [one.of for one in events(run, CallCompleted)] == [second]


def test_an_answer_that_does_not_fit_the_question_is_refused(shell: Shell) -> None:
    run, _ = waiting(shell.bench)
    before = run.journal_path.read_bytes()
    assert shell("runs", "answer", run.run_id, "--value", '"seven"', "--json") == 2
    assert "does not fit the question" in shell.data["error"]["message"]
    assert shell("runs", "answer", run.run_id, "--json") == 2
    assert run.journal_path.read_bytes() == before


def test_a_call_that_is_no_question_is_not_answered(shell: Shell) -> None:
    run, call = unknown(shell.bench)
    assert shell("runs", "answer", run.run_id, call, "--value", "1", "--json") == 2
    assert (shell.code, f"decide {run.run_id} {call}" in shell.data["error"]["fix"]) == ("no_question", True)
