"""`cloche runs show` of a run that crashed five times, of one that waits for people, of one with thousands of calls."""

from __future__ import annotations

import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from cli.call_text import COLUMNS
from cli.next_steps import next_steps
from cli.run_text import rendered
from engine.run.calls import CallFailed, Effects
from engine.run.claim import claimed
from engine.run.decisions import answer, decide_unknown
from engine.run.events import CallStarted, CellStarted, RunStarted
from engine.run.folder import Run
from engine.run.generation import Choices
from engine.run.projection import view_of
from engine.run.view import GroupView, RunView, calls_of
from engine.sandbox.outcome import Cause
from tests.helpers.cells import Answers, Ask, CallError, Die, Program, ScriptedCells, Still, ask, begin
from tests.helpers.runs import Bench

Playing = Generator[Any, Any, Any]
BRANCH = "/parallel@steps.fetch.load_all[1.{}]"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def story(run: Run, *, everything: bool = False) -> str:
    text = rendered(view_of(run), folder=Path("run"), everything=everything)
    body, _, _ = text.partition("\nerror ")
    kept = [
        one
        for one in body.splitlines()
        if not one.startswith(("  revision", "  snapshot", "  pin", "next ", "message "))
    ]
    assert max(map(len, kept)) <= COLUMNS, max(kept, key=len)
    return text


def line(text: str, start: str) -> str:
    """The only line that begins with this, spaces aside."""
    (found,) = [one.strip() for one in text.splitlines() if one.strip().startswith(start)]
    return found


def triage(until: int) -> Program:
    """Reads in two branches, then asks the model, a program with effects, and the model again; dies after so many answers."""

    def program() -> Playing:
        answered = 0
        for branch in (1, 2):
            yield begin("read", scope=BRANCH.format(branch), path=f"logs/{branch}.txt")
        for _ in range(2):
            yield Still()
            answered += 1
        if answered == until:
            yield Die(Cause.SUPERVISOR_LOST)
        for fn, prompt in (("llm", "group"), ("llm", "rank"), ("deploy", "notify"), ("llm", "report")):
            if answered == until:
                yield Die(Cause.SUPERVISOR_LOST)
            try:
                yield ask(fn, prompt=prompt)
            except CallError:
                pass
            answered += 1
        return "report"

    return program


def crash(bench: Bench, run: Run, seconds: float, *calls: str) -> None:
    """A generation whose process was killed after it had begun these calls at the places where they stood before."""
    history = run.read()[1]
    places = {records[-1].key.fn: records[-1].started for records in history.places.values()}
    with claimed(run) as recorder:
        recorder.record(RunStarted(pid=4711, host="builder"))
        recorder.record(CellStarted(cell=f"cdead{history.generation:012x}", image="sha256:0", runtime="scripted"))
        bench.clock.pass_by(seconds)
        for fn in calls:
            recorder.record(CallStarted(**places[fn].body()))


def crashed_five_times(bench: Bench) -> Run:
    def model(request: Any) -> str:
        bench.clock.pass_by(1.5)
        if request.args["prompt"] == "group":
            raise CallFailed("ModelError", "overloaded")
        return "answer"

    def deploy(_request: Any) -> str:
        raise CallFailed("Refused", "not at night")

    handlers = {
        "read": Answers(lambda _: "text"),
        "llm": Answers(model, counted=True),
        "deploy": Answers(deploy, effects=Effects.SOME),
    }
    run, cells = bench.create(), ScriptedCells([triage(4), triage(5), triage(99)])
    bench.drive(run, cells, handlers)
    for seconds, begun in ((12.0, ["llm"]), (3.0, [])):
        bench.clock.pass_by(60)
        crash(bench, run, seconds, *begun)
    bench.clock.pass_by(60)
    bench.drive(run, cells, handlers)
    bench.clock.pass_by(60)
    crash(bench, run, 8.0, "deploy")
    bench.clock.pass_by(60)
    unknown = next(call.seq for call in calls_of(view_of(run).calls) if call.fn == "deploy")
    decide_unknown(run, unknown, what="rerun", by="anna")
    bench.drive(run, cells, handlers, choices=Choices(raise_cap=60, by="anna"))
    return run


def test_a_run_that_crashed_five_times_tells_its_story(bench: Bench) -> None:
    text = story(crashed_five_times(bench))
    told = [one.split() for one in text.splitlines() if re.match(r" {2}\d  ", one)]
    assert [" ".join(one[6:]) for one in told] == [
        "4 executed sandbox failed (supervisor_lost)",
        "↺ 3, 1 executed, 1 unknown process died, cell removed",
        "↺ ≤ 4 process died, cell removed",
        "↺ 3, 2 executed sandbox failed (supervisor_lost)",
        "↺ 4, 1 executed, 1 unknown process died, cell removed",
        "↺ 4, 2 executed completed",
    ]
    assert told[1][:6] == ["2", "12:01:03", "12.0", "s", "pid", "4711"]
    assert "anna raised the cap to 60" in text
    assert line(text, "calls (") == "calls (6 in all, ↺ 3 replayed, ✓ 1 completed, ✗ 2 failed)"
    assert "ModelError: overloaded  — handled" in text
    assert 'llm(prompt="rank")  1.50 s  executed 3 times, last by generation 4' in text
    assert line(text, "▸ parallel steps.fetch.load_all #1 branch 2")
    assert line(text, "anna decided") == "anna decided that it is made again"
    assert text.endswith('result  "report"')


def test_a_call_of_unknown_outcome_is_told_with_the_commands_that_settle_it(bench: Bench) -> None:
    run = bench.create()
    handlers = {
        "read": Answers(lambda _: 1),
        "llm": Answers(lambda _: 2),
        "deploy": Answers(lambda _: 3, effects=Effects.SOME),
    }
    bench.drive(run, ScriptedCells([triage(5)]), handlers)
    crash(bench, run, 1.0, "deploy")
    view = bench.drive(run, ScriptedCells([triage(99)]), handlers)
    text, seq = story(run), calls_of(view.calls)[-1].seq
    assert '? deploy(prompt="notify")  unknown since generation 2  executed 2 times' in text
    assert line(text, f"next    cloche runs decide {run.run_id} {seq}").endswith("rerun|fail|value")
    decide_unknown(run, seq, what="rerun", by="anna")
    assert [step.command for step in next_steps(view_of(run))] == [f"cloche runs resume {run.run_id}"]


def test_a_question_is_told_with_the_command_that_answers_it_and_then_with_who_did(bench: Bench) -> None:
    def program() -> Playing:
        return (yield ask("ask", question="Ship it?"))

    run, question = bench.create(), {"ask": Answers(lambda _: None, kind="person")}
    view = bench.drive(run, ScriptedCells([program]), question)
    (call,) = calls_of(view.calls)
    text = story(run)
    assert line(text, f"#{call.seq}") == f'#{call.seq}  ◌ ask(question="Ship it?")  waits for an answer  workflow.py:1'
    assert (
        line(text, "next    cloche runs answer") == f"next    cloche runs answer {run.run_id} {call.seq} --value JSON"
    )
    assert "waits for an answer" in line(text, "1  12:00")
    answer(run, call.seq, True, by="anna")
    bench.drive(run, ScriptedCells([program]), question)
    assert line(story(run), "anna") == "anna answered"


def test_a_failure_that_ended_the_run_is_told_from_one_that_was_handled(bench: Bench) -> None:
    def fail(_request: object) -> Any:
        raise CallFailed("ModelError", "no answer")

    def program() -> Playing:
        try:
            yield ask("llm", prompt="one")
        except CallError:
            pass
        yield ask("llm", prompt="two")

    run = bench.create()
    bench.drive(run, ScriptedCells([program]), {"llm": Answers(fail)})
    text = story(run)
    assert "ModelError: no answer  — handled" in text
    assert "ModelError: no answer  — not handled, ended generation 1" in text
    seq = calls_of(view_of(run).calls)[-1].seq
    assert line(text, "next    cloche runs resume")
    assert line(text, "next    cloche runs fork") == f"next    cloche runs fork {run.run_id} --from {seq} --revision R"


@pytest.mark.parametrize("replayed", [True, False])
def test_a_thousand_calls_are_folded_and_all_of_them_can_be_seen(bench: Bench, replayed: bool) -> None:
    def program(dies: bool) -> Program:
        def playing() -> Playing:
            for i in range(1000):
                yield ask("read", path=f"{i}.txt")
            if dies:
                yield Die(Cause.SUPERVISOR_LOST)

        return playing

    run, read = bench.create(), {"read": Answers(lambda _: 1, instant=True)}
    bench.drive(run, ScriptedCells([program(replayed)]), read)
    if replayed:
        bench.drive(run, ScriptedCells([program(False)]), read)
    text = story(run)
    assert len(text.splitlines()) < 40
    folded = "↺ 1000 calls replayed: read ×1000" if replayed else "✓ 996 calls completed: read ×996"
    assert folded in text
    assert f"`cloche runs show {run.run_id} --all` shows every call." in text
    assert story(run, everything=True).count("read(path=") == 1000


def test_many_branches_alike_are_folded_into_one_line(bench: Bench) -> None:
    def program() -> Playing:
        for i in range(1, 301):
            yield begin("read", scope=f"/pipeline@steps.fetch.load_all[1.{i}]", path=f"{i}.txt")
        for _ in range(300):
            yield Still()
        yield Die(Cause.SUPERVISOR_LOST)

    run, read = bench.create(), {"read": Answers(lambda _: 1, instant=True)}
    bench.drive(run, ScriptedCells([program]), read)
    bench.drive(run, ScriptedCells([program]), read)
    assert "▸ pipeline steps.fetch.load_all #1, 300 alike: ↺ 300 calls replayed: read ×300" in story(run)


def test_branches_that_alternate_are_one_group_each(bench: Bench) -> None:
    def program() -> Playing:
        for round_ in range(2):
            for branch in (1, 2):
                yield begin("read", scope=BRANCH.format(branch), path=f"{branch}-{round_}")
            for _ in range(2):
                yield Still()

    run = bench.create()
    view: RunView = bench.drive(run, ScriptedCells([program]), {"read": Answers(lambda _: 1, instant=True)})
    groups = [node for node in view.calls if isinstance(node, GroupView)]
    assert [(group.kind, group.name, len(group.items)) for group in groups] == [
        ("parallel", "steps.fetch.load_all #1 branch 1", 2),
        ("parallel", "steps.fetch.load_all #1 branch 2", 2),
    ]


def test_phases_around_branches_stay_one_group(bench: Bench) -> None:
    def program() -> Playing:
        for round_ in range(2):
            for branch in (1, 2):
                scope = f"/parallel@workflow.main[{round_ + 1}.{branch}]"
                yield Ask("read", {"path": "a"}, scope=scope, phase=("collect",), waits=False)
            for _ in range(2):
                yield Still()
            yield Ask("llm", {"prompt": "sum"}, phase=("sum",))

    handlers = {"read": Answers(lambda _: 1, instant=True), "llm": Answers(lambda _: 1)}
    view = bench.drive(bench.create(), ScriptedCells([program]), handlers)
    assert [(node.kind, getattr(node, "name", "")) for node in view.calls] == [
        ("phase", "collect"),
        ("phase", "sum"),
        ("phase", "collect"),
        ("phase", "sum"),
    ]
