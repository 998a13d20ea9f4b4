"""A program held against a record that was changed in one way, and against whole, failed and unfinished ones that were not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from engine.errors import EngineTimeout
from engine.run.calls import CallFailed, Effects
from engine.run.decisions import decide_unknown
from engine.run.events import CallCompleted, CellStarted, RunFinished
from engine.run.executing import AT_ONCE
from engine.run.folder import Run
from engine.run.journal import JournalDamaged
from engine.run.verdict import Difference, Verdict, What
from engine.run.verify import Subject, verify
from engine.sandbox.outcome import Cause
from tests.helpers.cells import Answers, CallError, Die, GiveUp, Program, ScriptedCells, Still, ask, begin
from tests.helpers.journals import changed, doctored, repeated, swapped, without
from tests.helpers.runs import Bench

Playing = Generator[Any, Any, Any]
LEFT, RIGHT = "/parallel@workflow.main[1.1]", "/parallel@workflow.main[1.2]"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def check(run: Run, *programs: Program, **subject: Any) -> Verdict:
    given = {
        "revision": run.spec.revision,
        "digest": run.spec.snapshot_digest,
        "dependencies": frozenset(run.spec.pins),
    }
    held = Subject(run.folder, **{**given, **subject})
    return asyncio.run(verify(run, held, cells=ScriptedCells(list(programs)), deadline_s=60))


def only(verdict: Verdict) -> Difference:
    (found,) = verdict.differences
    return found


def echo(**options: Any) -> Answers:
    return Answers(lambda request: request.args["prompt"].upper(), **options)


def fails() -> Answers:
    def fail(_request: object) -> Any:
        raise CallFailed("ModelError", "no answer")

    return Answers(fail)


def three() -> Playing:
    """The prompts of the last two hold the answers before them."""
    first = yield ask("llm", prompt="one")
    second = yield ask("llm", prompt=f"{first} two")
    third = yield ask("read", prompt=f"{second} three")
    return [first, second, third]


def recorded(bench: Bench, program: Program = three, **handlers: Answers) -> Run:
    run = bench.create()
    bench.drive(run, ScriptedCells([program]), {"llm": echo(), "read": echo(), "now": echo(instant=True), **handlers})
    return run


def line(run: Run, kind: type, nth: int = 0) -> int:
    return [one.seq for one in run.read()[0].lines if isinstance(one.event, kind)][nth]


def starts(run: Run) -> list[int]:
    return list(run.read()[1].records)


def test_a_run_is_verified_without_executing_or_writing_anything(bench: Bench) -> None:
    run = recorded(bench)
    before = {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()}
    verdict = check(run, three)
    assert (verdict.holds, verdict.whole, verdict.calls, verdict.asked) == (True, True, 3, 3)
    assert {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()} == before


# the seven


def test_a_changed_argument_is_named_with_both_forms_and_the_line(bench: Bench) -> None:
    run = recorded(bench)
    seq = starts(run)[1]
    (start,) = [one.event for one in run.read()[0].lines if one.seq == seq]
    key = [*start.body()["key"][:3], "0" * 64]
    run = doctored(run, changed(seq, key=key, args={"prompt": "ONE too"}))
    found = only(check(run, three))
    assert (found.what, found.seq, found.fn, found.n, found.where) == (What.ARGUMENT, seq, "llm", 2, "$.prompt")
    assert (found.recorded, found.asked) == ('{"prompt":"ONE too"}', '{"prompt":"ONE two"}')
    assert found.site == "workflow.py:1"


def test_a_changed_result_of_the_run_is_named(bench: Bench) -> None:
    run = recorded(bench)
    run = doctored(run, changed(line(run, RunFinished), result=["ONE", "TWO"]))
    found = only(check(run, three))
    assert (found.what, found.recorded) == (What.RESULT, '["ONE","TWO"]')
    assert found.asked == '["ONE","ONE TWO","ONE TWO THREE"]'


def test_a_changed_result_of_a_call_shows_where_it_matters_first(bench: Bench) -> None:
    run = recorded(bench)
    last = doctored(run, changed(line(run, CallCompleted, 2), result="SOMETHING ELSE"))
    assert only(check(last, three)).what is What.RESULT
    first = doctored(run, changed(line(run, CallCompleted, 0), result="EINS"))
    found = only(check(first, three))
    assert (found.what, found.asked) == (What.ARGUMENT, '{"prompt":"EINS two"}')


def test_a_swapped_order_is_named(bench: Bench) -> None:
    run = recorded(bench)
    one, two, _ = starts(run)
    run = doctored(run, swapped(one, two))
    found = only(check(run, three))
    assert (found.what, found.fn, found.n) == (What.ORDER, "llm", 2)
    assert "number 1" in found.message


def test_calls_of_two_branches_that_changed_places_are_named(bench: Bench) -> None:
    def branches() -> Playing:
        yield begin("llm", scope=LEFT, prompt="left")
        yield begin("read", scope=RIGHT, prompt="right")
        yield Still()
        yield Still()

    run = recorded(bench, branches)
    assert check(run, branches).holds
    run = doctored(run, swapped(*starts(run)))
    found = only(check(run, branches))
    assert (found.what, found.fn) == (What.ORDER, "read")


def test_a_missing_record_is_named_with_what_stands_in_its_place(bench: Bench) -> None:
    run = recorded(bench)
    run = doctored(run, without(starts(run)[0]))
    found = only(check(run, three))
    assert (found.what, found.fn, found.n, found.asked) == (What.MISSING, "llm", 1, 'llm({"prompt":"one"})')
    assert found.recorded == 'llm({"prompt":"ONE two"})'


def test_a_surplus_record_is_named(bench: Bench) -> None:
    run = recorded(bench)
    (start,) = [one.event for one in run.read()[0].lines if one.seq == starts(run)[1]]
    scope, fn, _, digest = start.body()["key"]
    run = doctored(run, repeated(starts(run)[1], key=[scope, fn, 3, digest]))
    found = only(check(run, three))
    assert (found.what, found.fn, found.n, found.recorded) == (What.SURPLUS, "llm", 3, 'llm({"prompt":"ONE two"})')


def test_a_changed_snapshot_byte_is_named(bench: Bench) -> None:
    run = recorded(bench)
    found = only(check(run, three, digest="e" * 64))
    assert (found.what, found.recorded, found.asked) == (What.SNAPSHOT, "d" * 64, "e" * 64)
    found = only(check(run, three, stored="f" * 64))
    assert (found.what, found.asked) == (What.SNAPSHOT, "f" * 64)
    found = only(check(doctored(run, lambda lines: lines, snapshot_digest="c" * 64), three, digest="d" * 64))
    assert found.what is What.SNAPSHOT


def test_another_image_is_named(bench: Bench) -> None:
    run = recorded(bench)
    run = doctored(run, changed(line(run, CellStarted), image="sha256:1"))
    found = only(check(run, three))
    assert (found.what, found.recorded, found.asked) == (What.IMAGE, "sha256:1", "sha256:0")
    assert "generation 1" in found.message


def test_damage_stays_damage(bench: Bench) -> None:
    run = recorded(bench)
    raw = run.journal_path.read_bytes()
    run.journal_path.write_bytes(raw.replace(b'"ONE two"', b'"ONE twa"'))
    with pytest.raises(JournalDamaged):
        check(run, three)


# ends


def test_a_program_that_fails_must_fail_in_the_same_way(bench: Bench) -> None:
    def breaks(message: str) -> Program:
        def program() -> Playing:
            yield ask("llm", prompt="one")
            raise KeyError(message)

        return program

    run = recorded(bench, breaks("rows"))
    assert check(run, breaks("rows")).holds
    found = only(check(run, breaks("columns")))
    assert (found.what, found.recorded) == (What.ENDING, "failed: KeyError: 'rows'")
    assert "columns" in found.asked


def test_a_failed_call_that_ended_the_run_is_raised_again_and_not_executed(bench: Bench) -> None:
    def program() -> Playing:
        return (yield ask("llm", prompt="one"))

    def handles() -> Playing:
        try:
            yield ask("llm", prompt="one")
        except CallError:
            return "handled"

    run = recorded(bench, program, llm=fails())
    assert check(run, program).holds
    found = only(check(run, handles))
    assert (found.what, found.asked) == (What.ENDING, "completed")


def test_a_handled_failure_is_raised_again(bench: Bench) -> None:
    def program() -> Playing:
        try:
            yield ask("llm", prompt="one")
        except CallError as error:
            return (yield ask("read", prompt=str(error)))

    run = recorded(bench, program, llm=fails())
    assert check(run, program).holds


def test_the_failing_call_must_be_the_same_one(bench: Bench) -> None:
    def program(first: bool) -> Program:
        def playing() -> Playing:
            errors = []
            for prompt in ("one", "two"):
                try:
                    yield ask("llm", prompt=prompt)
                except CallError as error:
                    errors.append(error)
            raise ValueError("no report") from errors[0 if first else 1]

        return playing

    run = recorded(bench, program(True), llm=fails())
    assert check(run, program(True)).holds
    found = only(check(run, program(False)))
    one, two = starts(run)
    assert (found.what, found.recorded, found.asked) == (What.ENDING, f"call {one}", f"call {two}")


def test_a_failure_that_was_executed_again_is_verified_by_its_last_outcome(bench: Bench) -> None:
    def program() -> Playing:
        first = yield ask("read", prompt="one")
        return [first, (yield ask("llm", prompt="two"))]

    run = recorded(bench, program, llm=fails())
    bench.drive(run, ScriptedCells([program]), {"llm": echo(), "read": echo()})
    assert check(run, program).holds


# unfinished runs


def dying_after(calls: int, program: Callable[[], Playing] = three) -> Program:
    def playing() -> Playing:
        running = program()
        step = next(running)
        for _ in range(calls):
            step = running.send((yield step))
        yield Die(Cause.SUPERVISOR_LOST)

    return playing


def test_an_unfinished_run_is_verified_up_to_its_last_completed_call(bench: Bench) -> None:
    run = recorded(bench, dying_after(2))
    verdict = check(run, three)
    assert (verdict.holds, verdict.whole, verdict.asked) == (True, False, 2)


def test_an_unfinished_run_that_differs_is_told_as_such(bench: Bench) -> None:
    def other() -> Playing:
        first = yield ask("llm", prompt="one")
        yield ask("llm", prompt=f"{first}!")

    run = recorded(bench, dying_after(2))
    assert only(check(run, other)).what is What.ARGUMENT
    assert only(check(doctored(run, without(starts(run)[0])), three)).what is What.MISSING


def test_a_surplus_record_of_an_unfinished_run_is_named(bench: Bench) -> None:
    run = recorded(bench, dying_after(1))
    (start,) = [one.event for one in run.read()[0].lines if one.seq == starts(run)[0]]
    scope, fn, _, digest = start.body()["key"]

    def ends_early() -> Playing:
        yield ask("llm", prompt="one")

    run = doctored(run, repeated(starts(run)[0], key=[scope, fn, 2, digest]))
    assert only(check(run, ends_early)).what is What.SURPLUS


async def never(_request: object) -> Any:
    await asyncio.Event().wait()


def interrupted_at(bench: Bench, calls: int, program: Program, **handlers: Answers) -> Run:
    """A run whose owner was told to stop once this many calls had begun."""
    run = bench.create()

    async def interrupt() -> None:
        running = asyncio.ensure_future(bench.drive_async(run, ScriptedCells([program]), handlers))
        while len(run.read()[1].records) < calls:
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(interrupt())
    return run


def test_a_call_of_unknown_outcome_gets_no_answer(bench: Bench) -> None:
    def branches() -> Playing:
        yield begin("llm", scope=LEFT, prompt="left")
        yield begin("read", scope=RIGHT, prompt="right")
        yield Still()
        yield Still()

    run = interrupted_at(bench, 2, branches, llm=Answers(never), read=echo(instant=True))
    verdict = check(run, branches)
    assert (verdict.holds, verdict.whole, verdict.asked) == (True, False, 2)


def test_a_value_that_a_person_gave_is_verified_like_any_other(bench: Bench) -> None:
    run = interrupted_at(bench, 1, three, llm=Answers(never, effects=Effects.SOME))
    decide_unknown(run, starts(run)[0], what="value", value="ONE")
    bench.drive(run, ScriptedCells([three]), {"llm": echo(), "read": echo()})
    assert check(run, three).holds


# overlapping calls


def test_answers_come_in_the_recorded_order(bench: Bench) -> None:
    def first_wins() -> Playing:
        yield begin("llm", scope=LEFT, prompt="left")
        yield begin("read", scope=RIGHT, prompt="right")
        _, first = yield Still()
        _, second = yield Still()
        return [first, second]

    release = asyncio.Event()

    async def late(_request: object) -> str:
        await release.wait()
        return "LATE"

    async def early(_request: object) -> str:
        release.set()
        return "EARLY"

    run = recorded(bench, first_wins, llm=Answers(late), read=Answers(early))
    assert check(run, first_wins).holds
    ends = [line(run, CallCompleted, nth) for nth in (0, 1)]
    lines = run.read()[0].lines
    by_seq = {one.seq: one for one in lines}
    other = doctored(
        run, lambda _: [by_seq[{ends[0]: ends[1], ends[1]: ends[0]}.get(one.seq, one.seq)] for one in lines]
    )
    assert only(check(other, first_wins)).what is What.RESULT


def test_a_dropped_call_stays_without_an_answer(bench: Bench) -> None:
    def gives_up() -> Playing:
        number = yield begin("llm", scope=LEFT, prompt="left")
        yield begin("read", scope=RIGHT, prompt="right")
        _, found = yield Still()
        yield GiveUp(number)
        return [found, (yield ask("read", prompt="after"))]

    run = recorded(bench, gives_up, llm=Answers(never))
    verdict = check(run, gives_up)
    assert (verdict.holds, verdict.asked) == (True, 3)


def test_a_program_that_waits_for_what_the_record_never_answers_is_told(bench: Bench) -> None:
    def gives_up(waits: bool) -> Program:
        def program() -> Playing:
            number = yield begin("llm", scope=LEFT, prompt="left")
            yield begin("read", scope=RIGHT, prompt="right")
            yield Still()
            if waits:
                yield Still()
            yield GiveUp(number)

        return program

    run = recorded(bench, gives_up(False), llm=Answers(never))
    found = only(check(run, gives_up(True)))
    assert (found.what, found.fn, found.scope) == (What.MISSING, "llm", LEFT)


# another revision


def test_another_revision_that_makes_the_same_calls_holds_whatever_it_returns(bench: Bench) -> None:
    def other_result() -> Playing:
        first, second, third = yield from three()
        return {"all": [first, second, third]}

    run = recorded(bench)
    run = doctored(run, changed(line(run, CellStarted), image="sha256:1"))
    verdict = check(run, other_result, revision="b" * 40, digest="e" * 64, chosen=True)
    assert (verdict.holds, verdict.revision, verdict.recorded_revision) == (True, "b" * 40, "a" * 40)
    assert "recorded revision returned" in verdict.notes[0]
    assert "another image" in verdict.notes[1]


def test_another_image_is_no_difference_when_a_person_asks_what_a_revision_would_do(bench: Bench) -> None:
    run = recorded(bench)
    run = doctored(run, changed(line(run, CellStarted), image="sha256:1"))
    assert only(check(run, three)).what is What.IMAGE
    verdict = check(run, three, chosen=True)
    assert (verdict.holds, len(verdict.notes)) == (True, 1)


def test_another_revision_is_told_its_first_break(bench: Bench) -> None:
    def asks_more() -> Playing:
        yield from three()
        yield ask("agent", prompt="more")

    found = only(check(recorded(bench), asks_more, revision="b" * 40))
    assert (found.what, found.fn, found.recorded, found.cause) == (What.MISSING, "agent", "", "")


def test_a_program_that_never_gets_there_is_no_verdict(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(ScriptedCells):
        pass

    async def receive(_cell: object) -> Any:
        await asyncio.Event().wait()

    run, cells = recorded(bench), Silent([three])
    monkeypatch.setattr("tests.helpers.cells.ScriptedCell.receive", receive)
    monkeypatch.setattr("engine.run.verify.GRACE_S", 0.0)
    held = Subject(run.folder, revision=run.spec.revision, digest=run.spec.snapshot_digest)
    with pytest.raises(EngineTimeout):
        asyncio.run(verify(run, held, cells=cells, deadline_s=0.05))
    assert cells.left == [cells.opened[0].cell_id]


def test_arguments_that_are_not_those_of_their_key_are_named_although_the_program_asks_as_recorded(
    bench: Bench,
) -> None:
    run = recorded(bench)
    seq = starts(run)[1]
    run = doctored(run, changed(seq, args={"prompt": "another"}))
    found = only(check(run, three))
    assert (found.what, found.seq, "not those of its key" in found.message) == (What.ARGUMENT, seq, True)


def test_a_call_that_was_given_up_before_there_was_room_for_it_is_not_missing(bench: Bench) -> None:
    def crowded() -> Playing:
        numbers = []
        for i in range(AT_ONCE + 1):
            numbers.append((yield begin("llm", prompt=str(i))))
        yield GiveUp(numbers[-1])
        for _ in range(AT_ONCE):
            yield Still()
        return "done"

    async def one_turn(request: object) -> int:
        for _ in range(50):
            await asyncio.sleep(0)
        return 1

    run = recorded(bench, crowded, llm=Answers(one_turn))
    assert len(run.read()[1].records) == AT_ONCE
    assert check(run, crowded).holds
