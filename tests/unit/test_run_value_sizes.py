"""How large a value may be: 60 MiB pass, 70 MiB are refused with one final error, and many of 1 MiB take no memory."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from cloche_guest import codec

from engine.run.blobs import INLINE_BYTES, BlobStore
from engine.run.calls import CallKey, CallRequest
from engine.run.claim import claimed
from engine.run.events import LINE_BYTES, CallCompleted, CallStarted
from engine.run.folder import Run
from engine.run.generation import Limits
from engine.run.handover import run_started
from engine.run.lifecycle import TaskTooLarge
from engine.run.projection import result_of, view_of
from engine.run.status import Status
from tests.helpers.cells import Answers, CallError, ScriptedCells, Step, Still, ask, begin
from tests.helpers.exact import same
from tests.helpers.resident import forget_peak, resident_bytes
from tests.helpers.runs import Bench

Playing = Generator[Step, Any, Any]
MIB = 1024 * 1024


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def outcome(run: Run, n: int = 1) -> Any:
    """The recorded outcome of the n-th call."""
    return list(run.read()[1].records.values())[n - 1].outcome


def test_a_value_of_60_mib_is_recorded_and_replayed(bench: Bench) -> None:
    large = "x" * (60 * MIB)

    def program() -> Playing:
        found = yield ask("large")
        if len(answers.executed) < 2:
            answers.executed.append(answers.executed[0])  # the second pass replays
            raise ValueError("again")
        return found

    answers = Answers(lambda _: large)
    run, cells = bench.create(), ScriptedCells([program])
    assert bench.drive(run, cells, {"large": answers}).reason == "program"
    view = bench.drive(run, cells, {"large": answers})
    assert view.status is Status.COMPLETED
    assert len(answers.executed) == 2
    assert result_of(run) == large
    (blob,) = (run.folder / "blobs").iterdir()
    assert blob.stat().st_size == 60 * MIB + 2
    assert run.journal_path.stat().st_size < 10_000


def test_a_result_of_70_mib_is_one_final_error_and_nothing_of_it_is_recorded(bench: Bench) -> None:
    large = b"x" * (53 * MIB)  # 70 MiB as text

    def program() -> Playing:
        try:
            yield ask("large")
        except CallError as error:
            return [error.type_name, error.message]

    run, cells, answers = bench.create(), ScriptedCells([program]), Answers(lambda _: large)
    view = bench.drive(run, cells, {"large": answers})
    assert view.status is Status.COMPLETED
    kind, message = codec.decode(result_of(run))
    assert kind == "UnencodableResult"
    assert message == "large() gave 74,099,385 bytes; a value has at most 67,108,864"
    assert not (run.folder / "blobs").exists()
    assert outcome(run).unencodable == message
    assert run.journal_path.stat().st_size < 10_000


def test_a_task_of_70_mib_is_refused_before_anything_begins(bench: Bench) -> None:
    run = bench.create(task="x" * (70 * MIB))
    with pytest.raises(TaskTooLarge, match="67,108,864") as caught:
        bench.drive(run, ScriptedCells([lambda: iter(())]), {})  # type: ignore[arg-type,return-value]
    assert caught.value.exit_code == 2
    assert len(run.read()[0].lines) == 1


def test_values_up_to_64_kib_stand_in_the_line_and_larger_ones_in_a_blob(bench: Bench) -> None:
    run = bench.create()
    for size, blob in ((INLINE_BYTES - 2, False), (INLINE_BYTES - 1, True)):
        stored = run.keep("x" * size)
        assert bool(stored.blob) is blob
        assert run.value(stored.encoded, stored.blob) == "x" * size
    assert LINE_BYTES > 2 * INLINE_BYTES


def test_many_values_of_1_mib_take_neither_memory_nor_journal(bench: Bench) -> None:
    run, count = bench.create(), 120
    before = resident_bytes()
    forget_peak()
    record_large(run, count)
    assert resident_bytes(peak=True) - before < 32 * MIB
    assert run.blobs.size() == count * (MIB + 6)
    assert run.journal_path.stat().st_size < count * 500
    history = run.read()[1]
    for record in list(history.records.values())[::50]:
        assert run.value(None, record.outcome.blob).startswith(f"{record.key.n:04}")  # type: ignore[union-attr]
    assert view_of(run).calls_made == count


def record_large(run: Run, count: int) -> None:
    """Record so many calls with a result of 1 MiB each."""
    with claimed(run) as recorder:
        recorder.record(run_started(recorder))
        for number in range(1, count + 1):
            key = CallKey("/", "large", number, "0" * 64)
            (line,) = recorder.record(CallStarted(key=key, args={}, site="workflow.py:1"))
            value = f"{number:04}" + "x" * MIB
            recorder.record(CallCompleted(of=line.seq, **run.keep(value).named("result", "blob")))


def test_the_record_of_a_run_is_bounded_by_bytes_and_the_bound_can_be_raised(bench: Bench) -> None:
    def program() -> Playing:
        for number in range(8):
            yield ask("large", k=number)

    answers = Answers(lambda request: f"{request.args['k']}" + "x" * MIB)
    run, cells = bench.create(), ScriptedCells([program])
    view = bench.drive(run, cells, {"large": answers}, limits=Limits(record_bytes=4 * MIB))
    assert (view.status, view.reason) == (Status.FAILED, "limit:record")
    done = len(answers.executed)
    assert 3 <= done <= 5
    assert run.journal_path.stat().st_size + run.blobs.size() <= 4 * MIB
    view = bench.drive(run, cells, {"large": answers}, limits=Limits(record_bytes=64 * MIB))
    assert view.status is Status.COMPLETED
    assert len(answers.executed) == 8 + 1, "the one for which there was no room is executed again"


@pytest.mark.parametrize("instant", [False, True], ids=["executed", "instant"])
def test_calls_that_end_at_once_do_not_carry_the_record_past_its_bound_together(bench: Bench, instant: bool) -> None:
    everybody, all_begun = 16, asyncio.Event()

    def program() -> Playing:
        for number in range(everybody):
            yield begin("large", scope=f"/parallel@workflow.main[1.{number + 1}]", k=number)
        for _ in range(everybody):
            yield Still()

    async def together(request: CallRequest) -> str:
        if len(answers.executed) == everybody:
            all_begun.set()
        await (asyncio.sleep(0) if instant else all_begun.wait())
        return f"{request.args['k']:02}" + "x" * MIB

    answers = Answers(together, instant=instant)
    run, cells = bench.create(), ScriptedCells([program])
    view = bench.drive(run, cells, {"large": answers}, limits=Limits(record_bytes=4 * MIB))
    assert (view.status, view.reason) == (Status.FAILED, "limit:record")
    assert 3 * MIB < run.journal_path.stat().st_size + run.blobs.size() <= 4 * MIB
    view = bench.drive(run, cells, {"large": answers}, limits=Limits(record_bytes=64 * MIB))
    assert view.status is Status.COMPLETED


def test_odd_values_pass_through_a_whole_run(bench: Bench) -> None:
    deep: Any = 1
    for _ in range(codec.DEPTH - 2):
        deep = (deep,)
    values = [
        10**5000,
        -(10**4999),
        "\x00\x00",
        "a\x00b",
        {"\x00": "\U0010ffff"},
        {1: 1, "1": 2},
        float("-inf"),
        -0.0,
        deep,
    ]

    def program() -> Playing:
        found = []
        for number, value in enumerate(values):
            found.append((yield ask("echo", k=number, value=value)))
        return found

    run, answers = bench.create(), Answers(lambda request: request.args["value"])
    cells = ScriptedCells([program])
    assert bench.drive(run, cells, {"echo": answers}).status is Status.COMPLETED
    assert same([request.args["value"] for request in answers.executed], values)
    assert same(codec.decode(result_of(run)), values)
    assert view_of(run).failed_calls == 0


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: "a\ud800", "surrogate"),
        (lambda: {"k": ["\udfff"]}, r"\$\.k\[0\]: contains a lone surrogate"),
        (lambda: _nested(10_000), "deeper than 100"),
        (lambda: [object()], r"\$\[0\]: object cannot be recorded"),
        (lambda: [iter(())], "tuple_iterator"),
    ],
)
def test_a_result_that_cannot_be_recorded_is_told_live_and_on_replay_and_not_made_again(
    bench: Bench, make: Any, told: str
) -> None:
    def program() -> Playing:
        try:
            yield ask("odd")
        except CallError as error:
            seen.append((error.type_name, error.message))
        if len(seen) < 2:
            raise ValueError("again")

    seen: list[tuple[str, str]] = []
    run, answers, cells = bench.create(), Answers(lambda _: make()), ScriptedCells([program])
    bench.drive(run, cells, {"odd": answers})
    assert bench.drive(run, cells, {"odd": answers}).status is Status.COMPLETED
    assert len(answers.executed) == 1
    assert seen[0] == seen[1]
    assert seen[0][0] == "UnencodableResult"
    with pytest.raises(AssertionError, match=told):
        raise AssertionError(seen[0][1])


def _nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_a_blob_store_tells_its_size_without_reading(tmp_path: Path) -> None:
    store = BlobStore(tmp_path / "blobs")
    assert store.size() == 0
    names = {store.put(bytes([65 + number]) * 10) for number in range(3)}
    assert store.put(b"A" * 10) in names
    assert store.size() == 30
