"""Runs on disks that are full or read-only, and under clocks that jump: nothing is done unrecorded and nothing recorded is lost."""

from __future__ import annotations

import asyncio
import itertools
import shutil
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cloche_guest import codec

from engine.errors import ClocheError, EngineFailure, StorageFull
from engine.ids import RUN_ID, new_run_id
from engine.run.calls import CallRequest
from engine.run.claim import claimed
from engine.run.decisions import cancel
from engine.run.folder import Run
from engine.run.generation import Limits
from engine.run.journal import read
from engine.run.projection import result_of, view_of
from engine.run.status import Status
from engine.run.store import RunNotFound
from engine.run.view import RunView
from engine.sandbox.frames import Artifact
from engine.sandbox.outcome import Cause
from tests.helpers.cells import Answers, Die, ScriptedCells, Step, ask, say
from tests.helpers.runs import Bench
from tests.helpers.small_disk import SmallDisk, small_disk

Playing = Generator[Step, Any, Any]
PAD = "p" * 4000
"""Makes each line of the journal need a page of its own, so that each of them is once the one that does not fit."""

LARGE = "x" * 70_000


def program() -> Playing:
    """Everything that writes: lines, both kinds of blobs, logs, an output file, a result."""
    one = yield ask("note", pad=PAD, k=1)
    yield say(b"o" * 5000, offset=0)
    large = yield ask("large", k=2)
    yield say(b"e" * 5000, offset=0, stream="stderr")
    yield ask("note", pad=LARGE, k=3)
    yield Artifact("sub/report.bin", b"a" * 6000)
    four = yield ask("note", pad=PAD, k=4)
    return [one, len(large), four, PAD]


RESULT = ["done 1" + PAD, len(LARGE) + 2, "done 4" + PAD, PAD]


def handlers() -> dict[str, Answers]:
    return {
        "note": Answers(lambda request: f"done {request.args['k']}{PAD}"),
        "large": Answers(lambda _: LARGE + "!!", instant=True),
    }


def executed(ledger: dict[str, Answers]) -> Counter[str]:
    """How often each call was really executed, by idempotency key."""
    return Counter(request.idempotency_key for answers in ledger.values() for request in answers.executed)


@pytest.fixture(scope="module")
def mounted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallDisk]:
    with small_disk(tmp_path_factory.mktemp("disk")) as disk:
        yield disk


@pytest.fixture
def disk(mounted: SmallDisk) -> Iterator[SmallDisk]:
    yield mounted
    mounted.free()
    shutil.rmtree(mounted.home)
    mounted.home.mkdir()


def names(run: Run) -> Iterator[str]:
    """All that stands in the run's folder."""
    return (str(path.relative_to(run.folder)) for path in run.folder.rglob("*"))


def recorded(run: Run) -> tuple[set[str], set[str]]:
    """Idempotency keys of the calls that a whole journal says were begun, and of those whose outcome it holds."""
    journal, history = run.read()
    assert journal.torn == 0
    assert journal.size == run.journal_path.stat().st_size
    started: set[str] = set()
    done: set[str] = set()
    for record in history.records.values():
        key = record.key
        name = ":".join((run.run_id, key.scope, key.fn, str(key.n), key.digest))
        started.add(name)
        done |= {name} if record.outcome is not None else set()
    return started, done


def full_once(disk: SmallDisk, bench: Bench, run: Run) -> str:
    """Drive the run on the full disk, check, make room, and finish it; returns what could not be written ("" for nothing)."""
    ledger = handlers()
    failed = ""
    try:
        bench.drive(run, ScriptedCells([program]), ledger)
    except StorageFull as error:
        failed = error.message.removeprefix(f"no space left to write {run.folder}/").removesuffix(".")
    before = executed(ledger)
    started, done = recorded(run)
    assert set(before) <= started  # the call fails before its side effect
    assert not [name for name in names(run) if Path(name).name.startswith(".")]
    disk.free()
    view = bench.drive(run, ScriptedCells([program]), ledger)
    assert (view.status, codec.decode(result_of(run))) == (Status.COMPLETED, RESULT)
    after = executed(ledger)
    assert all(after[name] == before[name] for name in done)  # completed calls are not executed again
    assert all(count == 1 for name, count in after.items() if name not in started - done)
    assert len(after) == 4
    assert (run.folder / "output" / "sub" / "report.bin").read_bytes() == b"a" * 6000
    return failed


def test_a_run_survives_every_write_that_finds_the_disk_full(disk: SmallDisk) -> None:
    bench, failures = Bench(disk.home), []
    for pages in range(64):
        run = None
        disk.leave(pages)
        try:
            run = bench.create()
        except StorageFull:
            failures.append("create")
            workflows = disk.home / "sessions/default/workflows"
            assert not workflows.exists() or list(workflows.iterdir()) == []
            with pytest.raises(RunNotFound):
                bench.store.open("20261130T120000Z-00000001")
            disk.free()
        if run is not None:
            failures.append(full_once(disk, bench, run))
            shutil.rmtree(run.folder)
    assert failures[-1] == ""
    kinds = {name.split("/")[0] if name.startswith("blobs") else name for name in failures}
    assert kinds == {
        "create",
        "",
        "run.lock",
        "journal.jsonl",
        "blobs",
        "logs/stdout.log",
        "logs/stderr.log",
        "output/sub/report.bin",
    }
    assert failures.count("journal.jsonl") >= 8  # both lines of calls, and the end of the run


def test_a_run_survives_every_file_that_finds_no_inode(disk: SmallDisk) -> None:
    bench, failures = Bench(disk.home), []
    run = bench.create()
    shutil.rmtree(run.folder)
    for inodes in range(22):
        run = None
        disk.leave_inodes(inodes)
        try:
            run = bench.create()
        except StorageFull:
            failures.append("create")
            assert list((disk.home / "sessions/default/workflows").iterdir()) == []
            disk.free()
        if run is not None:
            failures.append(full_once(disk, bench, run))
            shutil.rmtree(run.folder)
    assert failures[-1] == ""
    assert {name.split("/")[0] for name in failures} == {"create", "", "run.lock", "blobs", "logs", "output"}


def test_a_disk_that_is_full_from_one_moment_on_stops_before_the_next_side_effect(disk: SmallDisk) -> None:
    bench = Bench(disk.home)
    run, ledger = bench.create(), handlers()

    def fill(request: CallRequest) -> str:
        disk.leave(0)  # the outcome still fits the last page of the journal, the next call does not
        return "filled"

    ledger["note"] = Answers(fill)

    def two() -> Playing:
        yield ask("note", k=1)
        return (yield ask("large", pad=PAD))

    with pytest.raises(StorageFull, match=r"journal\.jsonl"):
        bench.drive(run, ScriptedCells([two]), ledger)
    assert [len(answers.executed) for answers in ledger.values()] == [1, 0]
    started, done = recorded(run)
    assert (len(started), len(done)) == (1, 1)
    disk.free()
    assert bench.drive(run, ScriptedCells([two]), ledger).status is Status.COMPLETED
    assert [len(answers.executed) for answers in ledger.values()] == [1, 1]


def test_a_full_disk_does_not_keep_a_run_from_being_shown(disk: SmallDisk) -> None:
    bench = Bench(disk.home)
    run = bench.create()
    bench.drive(run, ScriptedCells([program]), handlers())
    run.state_path.unlink()
    disk.leave(0)
    assert view_of(run).status is Status.COMPLETED
    assert list(run.folder.glob(".*")) == []


def test_a_cancel_request_that_finds_the_disk_full_says_so_and_can_be_made_again(disk: SmallDisk) -> None:
    bench = Bench(disk.home)
    run = interrupted(bench)
    before = run.journal_path.read_bytes()
    disk.leave(0)
    with pytest.raises(StorageFull, match="cancel"):
        asyncio.run(cancel(run, by="ada", prove_gone=bench.prove_gone))
    assert run.journal_path.read_bytes() == before
    assert not run.cancel_path.exists()
    disk.free()
    view = asyncio.run(cancel(run, by="ada", prove_gone=bench.prove_gone))
    assert view.status is Status.CANCELLED


def interrupted(bench: Bench) -> Run:
    """A run that was stopped after one call."""
    run, ledger = bench.create(), handlers()

    async def stopped() -> None:
        driving = asyncio.ensure_future(bench.drive_async(run, ScriptedCells([program]), ledger))
        ledger["large"] = Answers(lambda _: driving.cancel() and asyncio.Event().wait())
        with suppress(asyncio.CancelledError):
            await driving

    asyncio.run(stopped())
    assert view_of(run).status is Status.INTERRUPTED
    return run


def everything_written(run: Run) -> dict[str, bytes]:
    return {name: (run.folder / name).read_bytes() for name in names(run) if (run.folder / name).is_file()}


@pytest.mark.parametrize(
    "act",
    [
        lambda bench, run: bench.drive(run, ScriptedCells([program]), handlers()),
        lambda bench, run: bench.create(run_id="20261130T120000Z-0000000f"),
        lambda bench, run: asyncio.run(cancel(run, by="ada", prove_gone=bench.prove_gone)),
    ],
    ids=["resume", "create", "cancel"],
)
def test_a_read_only_home_refuses_what_writes_by_name_and_loses_nothing(
    disk: SmallDisk, act: Callable[[Bench, Run], object]
) -> None:
    bench = Bench(disk.home)
    run = interrupted(bench)
    before = everything_written(run)
    with disk.read_only():
        with pytest.raises(EngineFailure, match="Read-only file system") as caught:
            act(bench, run)
        assert caught.value.exit_code == 7
        assert str(disk.home) in caught.value.message
        assert caught.value.fix
    assert everything_written(run) == before
    ledger = handlers()
    assert bench.drive(run, ScriptedCells([program]), ledger).status is Status.COMPLETED
    assert len(ledger["note"].executed) == 2  # the third is the one from before


def test_a_read_only_home_can_be_read(disk: SmallDisk) -> None:
    bench = Bench(disk.home)
    run = interrupted(bench)
    run.state_path.unlink()
    with disk.read_only():
        assert view_of(bench.store.open(run.run_id)).status is Status.INTERRUPTED
        assert [found.run_id for found in bench.store.list()[0]] == [run.run_id]
        assert not run.is_owned()
        assert run.log_text("stdout") == "o" * 5000
    with claimed(run):
        assert run.is_owned()


# clocks


@dataclass
class JumpingClock:
    """Its wall clock jumps by the next of `jumps` at every look; its monotonic clock goes on by a millisecond."""

    jumps: Iterator[timedelta]
    at: datetime = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
    monotonic: float = 50.0
    seen: list[datetime] = field(default_factory=list)

    def now(self) -> datetime:
        self.at += next(self.jumps)
        self.seen.append(self.at)
        return self.at

    def monotonic_s(self) -> float:
        self.monotonic += 0.001
        return self.monotonic

    def pass_by(self, seconds: float) -> None:
        self.monotonic += seconds


def jumping() -> JumpingClock:
    """Back and forth by hours and years, ending every round a little later than it began."""
    rounds = [
        timedelta(hours=-5),
        timedelta(days=-365 * 20),
        timedelta(days=365 * 20, hours=5, seconds=1),
        timedelta(0),
    ]
    return JumpingClock(itertools.cycle(rounds))


def driven(bench: Bench, run: Run, play: Callable[[], Playing], ledger: dict[str, Answers]) -> RunView:
    return bench.drive(run, ScriptedCells([play]), ledger, limits=Limits(grace_s=0))


def test_times_in_a_journal_never_go_back_whatever_the_clock_does(tmp_path: Path) -> None:
    clock = jumping()
    bench = Bench(tmp_path, clock=clock)  # type: ignore[arg-type]
    run = bench.create(total_s=1e12, created_at=0.0)
    ledger = handlers()

    def dies() -> Playing:
        yield ask("note", pad=PAD, k=1)
        yield Die(Cause.SUPERVISOR_LOST)

    for _ in range(3):
        assert driven(bench, run, dies, ledger).reason == "sandbox"
    view = driven(bench, run, program, ledger)
    assert (view.status, len(view.generations)) == (Status.COMPLETED, 4)
    times = [line.at for line in read(run.journal_path).lines]
    assert times == sorted(times)
    assert min(clock.seen) < clock.seen[0] - timedelta(days=365 * 19)  # it did jump
    assert view.active_s < 60  # by the monotonic clock
    assert all(generation.active_s >= 0 for generation in view.generations)
    assert max(executed(ledger).values()) == 1


def twice() -> Playing:
    yield ask("note", k=1)
    yield ask("note", k=2)


def test_the_deadline_of_a_generation_follows_the_monotonic_clock(tmp_path: Path) -> None:
    for jump, passing, reason in (
        (timedelta(days=3650), 0.0, ""),
        (timedelta(days=-3650), 0.0, ""),
        (timedelta(0), 400.0, "deadline"),
    ):
        clock = JumpingClock(itertools.repeat(timedelta(0)))
        bench = Bench(tmp_path / f"{jump.days}-{passing}", clock=clock)  # type: ignore[arg-type]
        run = bench.create(active_s=300.0)

        async def slow(
            _: CallRequest, clock: JumpingClock = clock, jump: timedelta = jump, passing: float = passing
        ) -> str:
            clock.at += jump
            clock.pass_by(passing)
            await asyncio.sleep(0)
            return "ok"

        view = driven(bench, run, twice, {"note": Answers(slow)})
        assert view.reason == reason


def test_run_ids_stay_unique_when_the_clock_stands_or_goes_back(tmp_path: Path) -> None:
    clock = jumping()
    bench = Bench(tmp_path, clock=clock)  # type: ignore[arg-type]
    ids = [new_run_id(clock.now()) for _ in range(200)]
    assert len(set(ids)) == len(ids)
    assert all(RUN_ID.fullmatch(run_id) for run_id in ids)
    for run_id in ids[:20]:
        bench.create(run_id=run_id)
    assert {run.run_id for run in bench.store.list()[0]} == set(ids[:20])
    with pytest.raises(ClocheError, match="exists already"):
        bench.create(run_id=ids[0])
