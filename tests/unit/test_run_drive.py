"""Runs driven in memory: recording, replay, cap, statuses, cancel, interrupt, resume."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from engine.errors import CellLost, EngineFailure, RunCancelled, SandboxUnavailable, StorageFull
from engine.files import lock
from engine.run.calls import CallFailed, CallRequest, CallResult, Effects
from engine.run.claim import RunOwned, claimed
from engine.run.decisions import RunEndedAlready, cancel, decide_unknown
from engine.run.folder import Run
from engine.run.generation import Choices, Limits
from engine.run.lifecycle import StillCapped, TaskTooLarge
from engine.run.projection import result_of, view_of
from engine.run.replay import OnUnknown
from engine.run.status import Status
from engine.run.view import CallView, GroupView, RunView, calls_of
from engine.sandbox.frames import Artifact
from engine.sandbox.outcome import Cause
from tests.helpers.cells import Answers, Ask, CallError, Die, Lose, ScriptedCells, ask, say
from tests.helpers.runs import Bench

Playing = Generator[Any, Any, Any]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def two_calls() -> Playing:
    first = yield ask("llm", prompt="one")
    second = yield ask("llm", prompt="two")
    return [first, second]


def echo(**options: Any) -> Answers:
    """A counted function that answers with its prompt, in capitals."""
    return Answers(lambda request: request.args["prompt"].upper(), counted=True, **options)


def fail(type_name: str = "ModelError", message: str = "no answer") -> Any:
    raise CallFailed(type_name, message)


def events(run: Run) -> list[str]:
    return [line.event.e for line in run.read()[0].lines]


def test_a_run_executes_its_calls_and_completes(bench: Bench) -> None:
    run, cells, llm = bench.create(), ScriptedCells([two_calls]), echo()
    view = bench.drive(run, cells, {"llm": llm})
    assert (view.status, view.executions, view.failed_calls, view.exit_code) == (Status.COMPLETED, 2, 0, 0)
    assert result_of(run) == ["ONE", "TWO"]
    assert [reply[2] for reply in cells.opened[0].replies] == ["ONE", "TWO"]
    assert cells.left == [cells.opened[0].cell_id]
    assert events(run) == [
        "run.created",
        "run.started",
        "cell.started",
        "call.started",
        "call.completed",
        "call.started",
        "call.completed",
        "cell.ended",
        "run.finished",
    ]


@pytest.mark.parametrize("size", [50_000, 100_000], ids=["lines", "blobs"])
def test_a_program_that_records_without_end_is_stopped(bench: Bench, size: int) -> None:
    def records() -> Playing:
        for i in range(100):
            yield ask("llm", prompt=f"{i:03d}" + "x" * size)
        return None

    def drive_to(record_bytes: int) -> RunView:
        return bench.drive(run, ScriptedCells([records]), {"llm": echo()}, limits=Limits(record_bytes=record_bytes))

    run = bench.create()
    stopped = drive_to(1_000_000)
    assert (stopped.status, stopped.reason) == (Status.FAILED, "limit:record")
    kept = run.journal_path.stat().st_size + run.blobs.size()
    assert 1_000_000 - 2 * size < kept < 1_000_000 + 2 * size
    assert drive_to(1_000_000).executions == stopped.executions
    assert drive_to(1_500_000).executions > stopped.executions


def test_the_job_carries_entry_task_and_seed(bench: Bench) -> None:
    run, cells = bench.create(task={"$tuple": [1]}), ScriptedCells([two_calls])
    bench.drive(run, cells, {"llm": echo()})
    job = cells.opened[0].job
    assert job is not None
    assert (job.entry, job.task, job.seed) == ("log_triage", {"$tuple": [1]}, run.spec.seed)


def test_a_call_is_on_disk_before_it_is_executed_and_its_outcome_before_the_reply(bench: Bench) -> None:
    run = bench.create()
    seen: list[list[str]] = []

    def look(_request: object) -> str:
        seen.append(events(run))
        return "x"

    def program() -> Playing:
        yield ask("llm", prompt="one")
        seen.append(events(run))

    bench.drive(run, ScriptedCells([program]), {"llm": Answers(look)})
    assert [found[-1] for found in seen] == ["call.started", "call.completed"]


def test_a_completed_run_is_returned_and_opens_no_cell(bench: Bench) -> None:
    run, cells, llm = bench.create(), ScriptedCells([two_calls]), echo()
    first = bench.drive(run, cells, {"llm": llm})
    again = bench.drive(bench.store.open(run.run_id), cells, {"llm": llm})
    assert again == first
    assert (len(cells.opened), len(llm.executed)) == (1, 2)


def test_a_resume_replays_what_completed_and_goes_on_at_the_first_call_that_did_not(bench: Bench) -> None:
    run = bench.create()

    def lost() -> Playing:
        yield ask("llm", prompt="one")
        yield Lose(CellLost("gone"))

    cells, llm = ScriptedCells([lost, two_calls]), echo()
    view = bench.drive(run, cells, {"llm": llm})
    assert (view.status, view.reason, view.exit_code) == (Status.FAILED, "sandbox", 3)
    view = bench.drive(run, cells, {"llm": llm})
    assert view.status is Status.COMPLETED
    assert [request.args["prompt"] for request in llm.executed] == ["one", "two"]
    assert result_of(run) == ["ONE", "TWO"]
    assert [call.replayed for call in calls_of(view.calls)] == [True, False]


def test_live_equals_replayed_for_every_kind_of_answer(bench: Bench) -> None:
    run = bench.create()
    seen: list[list[object]] = [[], []]

    def answer(request: Any) -> Any:
        match request.args["prompt"]:
            case "value":
                return {"t": (1, 2.0, b"x"), "big": "x" * 100_000}
            case "fails":
                return fail("ModelError", "bad \ud800 text")
            case _:
                return object()

    def make(into: list[object], die: bool) -> Any:
        def program() -> Playing:
            for prompt in ("value", "fails", "unencodable"):
                try:
                    into.append((yield ask("llm", prompt=prompt)))
                except CallError as error:
                    into.append(str(error))
            into.append((yield ask("llm", prompt="value")))
            if die:
                yield Die(Cause.SUPERVISOR_LOST)

        return program

    llm = Answers(answer)
    cells = ScriptedCells([make(seen[0], True), make(seen[1], False)])
    bench.drive(run, cells, {"llm": llm})
    executed = len(llm.executed)
    assert bench.drive(run, cells, {"llm": llm}).status is Status.COMPLETED
    assert seen[0] == seen[1]
    assert cells.opened[0].replies == cells.opened[1].replies
    assert (executed, len(llm.executed)) == (4, 4)
    assert "UnencodableResult" in str(seen[0][2])


def test_large_values_lie_in_blobs_and_lines_stay_small(bench: Bench) -> None:
    run = bench.create()

    def program() -> Playing:
        return (yield ask("llm", prompt="p" * 200_000))

    view = bench.drive(run, ScriptedCells([program]), {"llm": echo()})
    assert view.status is Status.COMPLETED
    assert max(len(line) for line in run.journal_path.read_bytes().splitlines()) < 2000
    assert len(list((run.folder / "blobs").iterdir())) == 2
    assert result_of(run) == "P" * 200_000


def test_a_result_past_the_bound_is_recorded_as_such_and_raised(bench: Bench) -> None:
    run, llm = bench.create(task=""), echo()
    view = bench.drive(run, ScriptedCells([two_calls]), {"llm": llm}, limits=Limits(value_bytes=4))
    assert (view.status, view.reason) == (Status.FAILED, "program")
    assert "at most 4" in view.message
    bench.drive(run, ScriptedCells([two_calls]), {"llm": llm}, limits=Limits(value_bytes=4))
    assert len(llm.executed) == 1


def test_a_program_error_fails_the_run_with_the_original_error(bench: Bench) -> None:
    def program() -> Playing:
        yield ask("llm", prompt="one")
        raise KeyError("rows")

    run = bench.create()
    view = bench.drive(run, ScriptedCells([program]), {"llm": echo()})
    assert (view.status, view.reason, view.exit_code) == (Status.FAILED, "program", 1)
    assert view.error is not None
    assert (view.error.type, view.error.message) == ("KeyError", "'rows'")
    assert "raise KeyError" in view.error.traceback


def test_the_call_that_failed_the_run_executes_again_and_handled_failures_do_not(bench: Bench) -> None:
    def program() -> Playing:
        try:
            yield ask("llm", prompt="handled")
        except CallError:
            pass
        try:
            return (yield ask("llm", prompt="not handled"))
        except CallError as error:
            raise ValueError("no report") from error

    run, cells = bench.create(), ScriptedCells([program])
    failing = Answers(lambda _: fail())
    view = bench.drive(run, cells, {"llm": failing})
    assert (view.status, view.failed_calls) == (Status.FAILED, 2)
    llm = echo()
    view = bench.drive(run, cells, {"llm": llm})
    assert [request.args["prompt"] for request in llm.executed] == ["not handled"]
    assert (view.status, view.failed_calls, result_of(run)) == (Status.COMPLETED, 1, "NOT HANDLED")


def test_exactly_the_cap_is_fine_and_the_next_execution_is_refused(bench: Bench) -> None:
    def calls(number: int) -> Any:
        def program() -> Playing:
            for i in range(number):
                yield ask("llm", prompt=str(i))

        return program

    run = bench.create(run_id="20261130T120000Z-00000002")
    assert bench.drive(run, ScriptedCells([calls(40)]), {"llm": echo()}).status is Status.COMPLETED
    run, llm = bench.create(), echo()
    cells = ScriptedCells([calls(41)])
    view = bench.drive(run, cells, {"llm": llm})
    assert (view.status, view.executions, view.cap, view.exit_code) == (Status.CAPPED, 40, 40, 1)
    assert cells.opened[0].replies[-1] == ("stop", 41, "capped")
    assert bench.drive(run, cells, {"llm": llm}).status is Status.CAPPED
    assert len(cells.opened) == 1
    with pytest.raises(StillCapped):
        bench.drive(run, cells, {"llm": llm}, choices=Choices(raise_cap=40))
    view = bench.drive(run, cells, {"llm": llm}, choices=Choices(raise_cap=41))
    assert (view.status, view.executions, view.cap) == (Status.COMPLETED, 41, 41)
    assert len(llm.executed) == 41


def test_failures_count_towards_the_cap_and_uncounted_functions_and_replays_do_not(bench: Bench) -> None:
    def program() -> Playing:
        for i in range(5):
            yield ask("now", i=i)
        for i in range(2):
            try:
                yield ask("llm", prompt=str(i))
            except CallError:
                pass
        yield ask("llm", prompt="third")

    run = bench.create(cap=2)
    view = bench.drive(run, ScriptedCells([program]), {"llm": Answers(lambda _: fail(), counted=True), "now": echo_i()})
    assert (view.status, view.executions, view.failed_calls) == (Status.CAPPED, 2, 2)


def echo_i() -> Answers:
    return Answers(lambda request: request.args["i"])


def test_other_arguments_in_a_replay_stop_the_run_as_diverged(bench: Bench) -> None:
    def first() -> Playing:
        yield ask("llm", prompt="b, a")
        yield Die(Cause.SUPERVISOR_LOST)

    def second() -> Playing:
        yield ask("llm", prompt="a, b")

    run, cells, llm = bench.create(), ScriptedCells([first, second, second]), echo()
    bench.drive(run, cells, {"llm": llm})
    view = bench.drive(run, cells, {"llm": llm})
    assert (view.status, view.reason, len(llm.executed)) == (Status.FAILED, "diverged", 1)
    assert view.error is not None
    for told in ('"b, a"', '"a, b"', "workflow.py:1", "order of a set"):
        assert told in view.error.message
    view = bench.drive(run, cells, {"llm": llm}, choices=Choices(accept_divergence=True))
    assert (view.status, len(llm.executed)) == (Status.COMPLETED, 2)


def test_completed_records_that_a_resume_never_asks_for_are_listed(bench: Bench) -> None:
    def more() -> Playing:
        yield ask("llm", prompt="one")
        yield ask("agent", prompt="two")
        yield Die(Cause.SUPERVISOR_LOST)

    def fewer() -> Playing:
        yield ask("llm", prompt="one")

    run, handlers = bench.create(), {"llm": echo(), "agent": echo()}
    cells = ScriptedCells([more, fewer])
    bench.drive(run, cells, handlers)
    view = bench.drive(run, cells, handlers)
    assert [call.fn for call in calls_of(view.calls) if call.seq in view.unasked] == ["agent"]


@pytest.mark.parametrize(
    ("cause", "detail", "status", "reason", "exit_code"),
    [
        (Cause.EXIT, "exited", Status.FAILED, "program", 1),
        (Cause.SIGNAL, "SIGSEGV", Status.FAILED, "program", 1),
        (Cause.DEADLINE, "", Status.FAILED, "deadline", 1),
        (Cause.LIMIT_MEMORY, "", Status.FAILED, "limit:memory", 1),
        (Cause.LIMIT_MESSAGES, "", Status.FAILED, "limit:messages", 1),
        (Cause.LIMIT_OUTPUT_FILES, "", Status.FAILED, "limit:output_files", 1),
        (Cause.MESSAGE, "frame.oversized", Status.FAILED, "message", 1),
        (Cause.CANCELLED, "", Status.FAILED, "sandbox", 3),
        (Cause.OPERATOR, "", Status.FAILED, "sandbox", 3),
        (Cause.SUPERVISOR_LOST, "", Status.FAILED, "sandbox", 3),
        (Cause.ENGINE_LOST, "", Status.FAILED, "sandbox", 3),
    ],
)
def test_every_end_of_a_cell_has_its_own_reason(
    bench: Bench, cause: Cause, detail: str, status: Status, reason: str, exit_code: int
) -> None:
    def program() -> Playing:
        yield Die(cause, detail, exit=137)

    view = bench.drive(bench.create(), ScriptedCells([program]), {})
    assert (view.status, view.reason, view.exit_code) == (status, reason, exit_code)
    assert view.generations[0].cause == cause.value


def test_a_lost_cell_that_ran_out_of_memory_is_told_by_the_evidence(bench: Bench) -> None:
    def program() -> Playing:
        yield Lose(CellLost("gone"), Cause.LIMIT_MEMORY)

    view = bench.drive(bench.create(), ScriptedCells([program]), {})
    assert (view.status, view.reason) == (Status.FAILED, "limit:memory")


def test_no_cell_to_be_had_is_recorded_and_told(bench: Bench) -> None:
    class NoCells(ScriptedCells):
        def __call__(self, *, run_id: str, generation: int) -> Any:
            raise SandboxUnavailable("no engine answers.", fix="Run `cloche doctor`.")

    run = bench.create()
    view = bench.drive(run, NoCells([two_calls]), {"llm": echo()})
    assert (view.status, view.reason) == (Status.FAILED, "sandbox")
    assert "cloche doctor" in view.message
    assert bench.drive(run, ScriptedCells([two_calls]), {"llm": echo()}).status is Status.COMPLETED


@pytest.mark.parametrize(
    ("bad", "name"),
    [
        (Ask("llm", {"prompt": "x"}, n=3), "call.out_of_order"),
        (Ask("llm", {"prompt": "x"}, n=1), "call.repeated"),
        (Ask("llm", {"prompt": "x"}, scope="/nowhere[1]"), "call.bad_scope"),
        (Ask("llm", {"prompt": "x"}, scope="/requirements_parse[0]"), "call.bad_scope"),
        (Ask("llm", {"prompt": "x"}, scope="requirements_parse[1]"), "call.bad_scope"),
        (Ask("llm", {"prompt": "x"}, scope="/../etc"), "call.bad_scope"),
        (Ask("llm", {"prompt": "x"}, scope=""), "call.bad_scope"),
        (Ask("l l m", {"prompt": "x"}), "call.bad_function"),
    ],
)
def test_a_call_that_no_code_can_make_ends_the_program(bench: Bench, bad: Ask, name: str) -> None:
    def program() -> Playing:
        yield ask("llm", prompt="one")
        yield bad

    llm = echo()
    view = bench.drive(bench.create(), ScriptedCells([program]), {"llm": llm})
    assert (view.status, view.reason) == (Status.FAILED, "message")
    assert view.error is not None
    assert (view.error.type, len(llm.executed)) == (name, 1)


def test_an_unknown_function_and_a_missing_permission_are_failed_calls(bench: Bench) -> None:
    def program() -> Playing:
        told = []
        for fn in ("imagined", "bash"):
            try:
                yield ask(fn)
            except CallError as error:
                told.append(error.type_name)
        return told

    run, bash = bench.create(), Answers(lambda _: "", permission="workspace.exec")
    view = bench.drive(run, ScriptedCells([program]), {"bash": bash})
    assert (view.status, view.failed_calls, bash.executed) == (Status.COMPLETED, 2, [])
    assert result_of(run) == ["LookupError", "PermissionError"]


def owner_dies_in(bench: Bench, run: Run, effects: Effects) -> Answers:
    """The owner goes away while a call is executed: the bug of a handler stands for it. What is left is cut back to that."""

    def die(_request: object) -> str:
        raise RuntimeError("the owner dies here")

    act = Answers(die, effects=effects)
    with pytest.raises(RuntimeError):
        bench.drive(run, ScriptedCells([acting]), {"act": act})
    raw = run.journal_path.read_bytes().splitlines(keepends=True)
    kept = next(i for i, line in enumerate(raw) if b'"call.started"' in line) + 1
    run.journal_path.write_bytes(b"".join(raw[:kept]))
    run.state_path.unlink()
    return act


def acting() -> Playing:
    return (yield ask("act"))


def test_a_run_whose_owner_died_is_interrupted_and_its_cell_is_proven_gone_first(bench: Bench) -> None:
    run = bench.create()
    owner_dies_in(bench, run, Effects.NONE)
    view = view_of(run)
    assert (view.status, view.reason, view.exit_code) == (Status.INTERRUPTED, "owner_lost", 1)
    assert [call.status for call in calls_of(view.calls)] == ["unknown"]
    act = Answers(lambda _: "done")
    cells = ScriptedCells([acting])
    view = bench.drive(run, cells, {"act": act})
    assert (view.status, bench.gone, len(act.executed)) == (Status.COMPLETED, ["c0000000000000000"], 1)
    assert events(run)[4:7] == ["cell.ended", "call.unknown", "run.started"]


def test_the_idempotency_key_of_an_unknown_call_stays_the_same(bench: Bench) -> None:
    run = bench.create()
    first = owner_dies_in(bench, run, Effects.IDEMPOTENT)
    act = Answers(lambda _: "done", effects=Effects.IDEMPOTENT)
    bench.drive(run, ScriptedCells([acting]), {"act": act})
    assert act.executed[0].idempotency_key == first.executed[0].idempotency_key
    assert act.executed[0].idempotency_key.startswith(run.run_id)


def test_an_acting_call_of_unknown_outcome_waits_for_a_person(bench: Bench) -> None:
    run, act = bench.create(), Answers(lambda _: "done", effects=Effects.SOME)
    owner_dies_in(bench, run, Effects.SOME)
    view = bench.drive(run, ScriptedCells([acting]), {"act": act})
    assert (view.status, view.reason, act.executed) == (Status.INTERRUPTED, "unknown_outcome", [])
    view = bench.drive(run, ScriptedCells([acting]), {"act": act}, choices=Choices(on_unknown=OnUnknown.RERUN))
    assert (view.status, len(act.executed)) == (Status.COMPLETED, 1)


def test_halt_stops_even_at_a_harmless_call_of_unknown_outcome(bench: Bench) -> None:
    run, act = bench.create(), Answers(lambda _: "done")
    owner_dies_in(bench, run, Effects.NONE)
    view = bench.drive(run, ScriptedCells([acting]), {"act": act}, choices=Choices(on_unknown=OnUnknown.HALT))
    assert (view.status, view.reason, act.executed) == (Status.INTERRUPTED, "unknown_outcome", [])


@pytest.mark.parametrize(
    ("what", "executed", "result"), [("rerun", 1, "done"), ("treat-as-failed", 0, "UnknownOutcome"), ("value", 0, 7)]
)
def test_a_person_settles_a_call_of_unknown_outcome(bench: Bench, what: str, executed: int, result: object) -> None:
    def program() -> Playing:
        try:
            found = yield ask("act")
        except CallError as error:
            return error.type_name
        return found

    run, act = bench.create(), Answers(lambda _: "done", effects=Effects.SOME)
    owner_dies_in(bench, run, Effects.SOME)
    bench.drive(run, ScriptedCells([program]), {"act": act})
    (call,) = calls_of(view_of(run).calls)
    decide_unknown(run, call.seq, what=what, value=7)
    view = bench.drive(run, ScriptedCells([program]), {"act": act})
    assert (view.status, len(act.executed), result_of(run)) == (Status.COMPLETED, executed, result)


def test_a_call_that_is_being_executed_is_cancelled_with_the_run(bench: Bench) -> None:
    run = bench.create()
    ended: list[str] = []

    async def wait_for_ever(_request: object) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("call")

    async def both() -> RunView:
        reached = asyncio.Event()

        async def slow(_request: object) -> None:
            reached.set()
            await wait_for_ever(_request)

        cells = ScriptedCells([acting])
        owner = asyncio.create_task(bench.drive_async(run, cells, {"act": Answers(slow)}))
        await reached.wait()
        bench.clock.pass_by(1)
        view = await cancel(run, by="a person", prove_gone=bench.prove_gone)
        assert (await owner).status is Status.CANCELLED
        assert (cells.opened[0].cancelled, cells.left) == ("cancelled", [cells.opened[0].cell_id])
        return view

    view = asyncio.run(both())
    assert (view.status, view.exit_code, ended) == (Status.CANCELLED, 6, ["call"])
    assert [call.status for call in calls_of(view.calls)] == ["unknown"]
    assert not run.cancel_path.exists()
    assert "call.failed" not in events(run)


def test_a_cancelled_run_is_final(bench: Bench) -> None:
    run = bench.create()
    assert asyncio.run(cancel(run, by="x", prove_gone=bench.prove_gone)).status is Status.CANCELLED
    assert asyncio.run(cancel(run, by="x", prove_gone=bench.prove_gone)).status is Status.CANCELLED
    with pytest.raises(RunCancelled):
        bench.drive(run, ScriptedCells([two_calls]), {"llm": echo()})


def test_a_run_without_an_owner_is_cancelled_where_it_stands(bench: Bench) -> None:
    run = bench.create()
    owner_dies_in(bench, run, Effects.NONE)
    view = asyncio.run(cancel(run, by="x", prove_gone=bench.prove_gone))
    assert (view.status, bench.gone) == (Status.CANCELLED, ["c0000000000000000"])


def test_an_ended_run_is_not_cancelled(bench: Bench) -> None:
    run = bench.create()
    before = bench.drive(run, ScriptedCells([two_calls]), {"llm": echo()})
    with pytest.raises(RunEndedAlready):
        asyncio.run(cancel(run, by="x", prove_gone=bench.prove_gone))
    assert view_of(run) == before
    assert not run.cancel_path.exists()


def test_stopping_the_process_interrupts_the_run_and_passes_on(bench: Bench) -> None:
    run = bench.create()

    async def stop() -> None:
        reached = asyncio.Event()

        async def slow(_request: object) -> None:
            reached.set()
            await asyncio.Event().wait()

        cells = ScriptedCells([acting])
        owner = asyncio.create_task(bench.drive_async(run, cells, {"act": Answers(slow)}))
        await reached.wait()
        owner.cancel()
        with pytest.raises(asyncio.CancelledError):
            await owner
        assert (cells.opened[0].finished, cells.left) == (1, [cells.opened[0].cell_id])

    asyncio.run(stop())
    view = view_of(run)
    assert (view.status, view.reason, view.exit_code) == (Status.INTERRUPTED, "stopped", 1)
    assert "call.failed" not in events(run)
    assert bench.drive(run, ScriptedCells([acting]), {"act": Answers(lambda _: 1)}).status is Status.COMPLETED


def test_two_resumers_one_is_told_who_owns_the_run(bench: Bench) -> None:
    run = bench.create()

    def program() -> Playing:
        with pytest.raises(RunOwned, match=r"process \d+ on"), claimed(run):
            pass
        yield ask("llm", prompt="one")

    assert bench.drive(run, ScriptedCells([program]), {"llm": echo()}).status is Status.COMPLETED


def test_a_run_that_somebody_owns_is_running(bench: Bench) -> None:
    run = bench.create()
    with lock(run.folder / "run.lock"):
        assert view_of(run).status is Status.RUNNING
    assert view_of(run).status is Status.INTERRUPTED


def test_output_and_files_stay_with_the_run_and_cuts_are_marked(bench: Bench) -> None:
    def program() -> Playing:
        yield say(b"head", offset=0)
        yield say(b"tail \xff", offset=1004)
        yield say(b"warning", offset=0, stream="stderr")
        yield Artifact("reports/a.txt", b"report")
        raise ValueError("after its output")

    run = bench.create()
    view = bench.drive(run, ScriptedCells([program]), {})
    assert (run.folder / "logs/stdout.log").read_bytes() == b"head\n[cloche: 1000 bytes were not kept]\ntail \xff"
    assert (run.folder / "logs/stderr.log").read_bytes() == b"warning"
    assert (run.folder / "output/reports/a.txt").read_bytes() == b"report"
    assert [(file.path, file.size) for file in view.artifacts] == [("reports/a.txt", 6)]
    assert (view.generations[0].stdout_bytes, view.generations[0].cut_bytes) == (1010, 1000)
    assert view.status is Status.FAILED


def test_a_file_replaces_the_folder_of_an_earlier_generation_and_a_folder_the_file(bench: Bench) -> None:
    def puts(path: str, data: bytes) -> Any:
        def play() -> Playing:
            yield Artifact(path, data)
            raise ValueError("again")

        return play

    run = bench.create()
    for path, data in [("a", b"1"), ("a/b/c", b"2"), ("a/d", b"3"), ("a", b"4"), ("a/b", b"5")]:
        view = bench.drive(run, ScriptedCells([puts(path, data)]), {})
        assert (view.status, view.reason) == (Status.FAILED, "program")
        assert (run.folder / "output" / path).read_bytes() == data


def test_output_past_the_bound_is_not_kept(bench: Bench) -> None:
    def program() -> Playing:
        for i in range(10):
            yield say(b"x" * 100, offset=100 * i)
        return None
        yield

    run = bench.create()
    view = bench.drive(run, ScriptedCells([program]), {}, limits=Limits(output_bytes=250))
    assert (run.folder / "logs/stdout.log").read_bytes() == b"x" * 250 + b"\n[cloche: the rest was not kept]\n"
    assert view.generations[0].cut_bytes == 750


def test_an_output_file_never_goes_through_a_link(bench: Bench, tmp_path: Path) -> None:
    def program() -> Playing:
        yield Artifact("out/a.txt", b"x")
        return None
        yield

    run = bench.create()
    outside = tmp_path / "outside"
    outside.mkdir()
    (run.folder / "output").mkdir()
    (run.folder / "output/out").symlink_to(outside)
    with pytest.raises(EngineFailure):
        bench.drive(run, ScriptedCells([program]), {})
    assert list(outside.iterdir()) == []
    assert (view_of(run).reason, view_of(run).exit_code) == ("engine", 7)


def test_a_full_disk_fails_the_call_before_its_side_effect(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    run, llm = bench.create(), echo()

    def program() -> Playing:
        yield ask("llm", prompt="one")
        monkeypatch.setattr(type(run), "keep", full)
        yield ask("llm", prompt="two")

    def full(_run: object, _encoded: object, **_: object) -> None:
        raise StorageFull("no space left.")

    with pytest.raises(StorageFull):
        bench.drive(run, ScriptedCells([program]), {"llm": llm})
    monkeypatch.undo()
    assert len(llm.executed) == 1
    assert (view_of(run).status, view_of(run).reason) == (Status.FAILED, "engine")
    assert bench.drive(run, ScriptedCells([two_calls]), {"llm": llm}).status is Status.COMPLETED


def test_active_time_is_counted_over_generations(bench: Bench) -> None:
    run = bench.create(active_s=100.0)

    def slow(_request: object) -> str:
        bench.clock.pass_by(60)
        return "x"

    def program() -> Playing:
        yield ask("llm", prompt="one")
        yield Die(Cause.SUPERVISOR_LOST)

    cells = ScriptedCells([program, two_calls])
    view = bench.drive(run, cells, {"llm": Answers(slow)})
    assert view.active_s == 60
    view = bench.drive(run, cells, {"llm": echo()})
    job = cells.opened[1].job
    assert job is not None
    assert job.deadline_s == 40
    assert (view.status, view.active_s) == (Status.COMPLETED, 60)


def test_a_run_without_time_left_ends_at_its_deadline_without_a_cell(bench: Bench) -> None:
    run, cells = bench.create(total_s=100.0), ScriptedCells([two_calls])
    bench.clock.pass_by(101)
    view = bench.drive(run, cells, {"llm": echo()})
    assert (view.status, view.reason, cells.opened) == (Status.FAILED, "deadline", [])


def test_a_program_that_outlives_its_deadline_is_ended_by_the_host(bench: Bench) -> None:
    run = bench.create(active_s=10.0)

    async def slow(_request: object) -> None:
        bench.clock.pass_by(16)
        await asyncio.Event().wait()

    view = bench.drive(run, ScriptedCells([acting]), {"act": Answers(slow)})
    assert (view.status, view.reason) == (Status.FAILED, "deadline")


def test_phases_and_dependencies_group_the_calls(bench: Bench) -> None:
    def program() -> Playing:
        yield ask("llm", prompt="1")
        yield ask("llm", prompt="2", phase=("scan",))
        yield ask("llm", prompt="3", phase=("scan",), scope="/requirements_parse[1]", label="parse")
        yield ask("llm", prompt="4", phase=("scan",), scope="/requirements_parse[2]")
        yield ask("llm", prompt="5")

    view = bench.drive(bench.create(), ScriptedCells([program]), {"llm": echo()})
    first, scan, last = view.calls
    assert isinstance(scan, GroupView)
    inner, one, two = scan.items
    assert isinstance(first, CallView)
    assert isinstance(last, CallView)
    assert isinstance(inner, CallView)
    assert isinstance(one, GroupView)
    assert isinstance(two, GroupView)
    assert (scan.kind, scan.name, one.kind, one.name, two.name) == (
        "phase",
        "scan",
        "dependency",
        "requirements_parse[1]",
        "requirements_parse[2]",
    )
    assert [call.n for call in calls_of(view.calls)] == [1, 2, 1, 1, 3]
    assert [call.label for call in calls_of(one.items)] == ["parse"]


@pytest.mark.parametrize("instant", [True, False])
def test_an_instant_call_is_recorded_and_answered_like_one_that_waits(instant: bool, bench: Bench) -> None:
    def program() -> Playing:
        try:
            yield ask("fails")
        except CallError as error:
            return [error.type_name, (yield ask("now", i=1))]
        return None

    def refuse(_: CallRequest) -> Any:
        raise CallFailed("ValueError", "no")

    run = bench.create()
    handlers = {"fails": Answers(refuse, instant=instant), "now": Answers(lambda r: r.args["i"], instant=instant)}
    view = bench.drive(run, ScriptedCells([program]), handlers)
    assert result_of(run) == ["ValueError", 1]
    assert [call.status for call in calls_of(view.calls)] == ["failed", "completed"]


def test_output_that_comes_together_with_a_cancel_request_is_kept(bench: Bench) -> None:
    run = bench.create()

    def program() -> Playing:
        yield ask("llm", prompt="a")
        run.cancel_path.write_text('{"by": "ann"}')
        bench.clock.pass_by(1)
        yield say(b"the last words", offset=0)
        yield ask("llm", prompt="b")

    view = bench.drive(run, ScriptedCells([program]), {"llm": echo()})
    assert view.status is Status.CANCELLED
    assert (run.folder / "logs" / "stdout.log").read_bytes() == b"the last words"
    assert len(calls_of(view.calls)) == 1


def test_a_view_shows_itself_in_a_line_whatever_it_holds(bench: Bench) -> None:
    run = bench.create()
    view = bench.drive(run, ScriptedCells([two_calls]), {"llm": echo()})
    assert repr(view) == str(view) == f"RunView({run.run_id!r}, 'completed')"


def test_state_json_is_the_view_and_is_made_again_when_it_is_gone(bench: Bench) -> None:
    run = bench.create()
    view = bench.drive(run, ScriptedCells([two_calls]), {"llm": echo()})
    assert json.loads(run.state_path.read_bytes())["view"] == view.model_dump(mode="json")
    run.state_path.unlink()
    assert view_of(run) == view
    assert run.state_path.exists()


def test_state_json_is_rewritten_at_most_twice_a_second_while_nothing_changes_status(bench: Bench) -> None:
    def program() -> Playing:
        for i in range(30):
            bench.clock.pass_by(0.1)
            yield ask("now", i=i)

    views: list[RunView] = []
    bench.drive(bench.create(), ScriptedCells([program]), {"now": echo_i()}, watch=views.append)
    assert 2 < len(views) <= 2 + 3 / 0.5
    assert [views[0].status, views[-1].status] == [Status.RUNNING, Status.COMPLETED]


def test_scripted_replies_that_were_used_are_told_to_later_generations(bench: Bench) -> None:
    run = bench.create()

    def answer(request: Any) -> Any:
        index = len(request.replies_used)
        if index == 1:
            raise CallFailed("ModelError", "no", facts={"replies": [index]})
        return CallResult("x", {"replies": [index]})

    def program() -> Playing:
        for i in range(3):
            yield ask("llm", i=i)

    llm, cells = Answers(answer), ScriptedCells([program])
    bench.drive(run, cells, {"llm": llm})
    view = bench.drive(run, cells, {"llm": llm})
    assert view.status is Status.COMPLETED
    assert [sorted(request.replies_used) for request in llm.executed] == [[], [0], [0, 1], [0, 1, 2]]


def test_a_task_larger_than_a_value_is_refused_before_anything_is_begun(bench: Bench) -> None:
    run, cells = bench.create(task="x" * 100), ScriptedCells([two_calls])
    with pytest.raises(TaskTooLarge):
        bench.drive(run, cells, {"llm": echo()}, limits=Limits(value_bytes=50))
    assert (cells.opened, events(run)) == ([], ["run.created"])


def eventful() -> Playing:
    """Every kind of call: one that works, one whose failure is handled, one in a dependency, a large one."""
    told = [(yield ask("llm", prompt="one"))]
    try:
        yield ask("llm", prompt="fails")
    except CallError as error:
        told.append(error.type_name)
    told.append((yield ask("llm", scope="/requirements_parse[1]", prompt="two")))
    yield say(b"so far", offset=0)
    large = yield ask("llm", prompt="x" * 70_000)
    return [*told, len(large)]


def answer(request: Any) -> Any:
    return fail() if request.args["prompt"] == "fails" else request.args["prompt"].upper()


def test_a_run_cut_off_behind_any_of_its_lines_resumes_to_the_same_result(bench: Bench) -> None:
    whole = bench.create()
    bench.drive(whole, ScriptedCells([eventful]), {"llm": Answers(answer)})
    expected, raw = result_of(whole), whole.journal_path.read_bytes().splitlines(keepends=True)
    assert expected == ["ONE", "ModelError", "TWO", 70_000]
    for length in range(1, len(raw)):
        whole.state_path.unlink(missing_ok=True)
        whole.journal_path.write_bytes(b"".join(raw[:length]) + raw[length][: len(raw[length]) // 2])
        completed = sum(b'"e":"call.completed"' in line for line in raw[:length])
        llm = Answers(answer)
        view = bench.drive(whole, ScriptedCells([eventful]), {"llm": llm})
        assert (view.status, result_of(whole)) == (Status.COMPLETED, expected)
        executed_before = completed + any(b'"e":"call.failed"' in line for line in raw[:length])
        # The failed call executes again when nothing shows that its failure was handled: right behind its record.
        again = b'"e":"call.failed"' in raw[length - 1]
        assert len(llm.executed) == 4 - executed_before + again, length
        assert view_of(whole).generations[-1].torn > 0
