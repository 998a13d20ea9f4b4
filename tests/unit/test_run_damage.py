"""A run's record, broken in every way a disk or a hand can break it: each is found and named, or is a torn line and told."""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
import os
import random
import shutil
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cloche_guest import codec

from engine.errors import EngineFailure
from engine.run import events, journal
from engine.run.blobs import BlobStore
from engine.run.calls import CallFailed, CallRequest, Effects
from engine.run.claim import read_owner
from engine.run.decisions import decide_unknown
from engine.run.folder import Run
from engine.run.generation import Limits
from engine.run.history import History
from engine.run.journal import Journal, JournalDamaged, appending, read
from engine.run.projection import result_of, view_of
from engine.run.status import Status
from engine.sandbox.frames import Artifact
from engine.sandbox.outcome import Cause
from tests.helpers.cells import Answers, CallError, Die, ScriptedCells, Step, ask, begin, say
from tests.helpers.exact import same
from tests.helpers.runs import Bench

Playing = Generator[Step, Any, Any]
EMPTY = Journal((), 0, 0, events.FIRST_HASH)
LARGE = "ä" * 50_000
RESULT = ["end", LARGE]


def first() -> Playing:
    yield say(b"hello\n", offset=0)
    yield ask("small", path="a.txt", label="first", phase=("look",))
    yield ask("large", rows=LARGE)
    try:
        yield ask("odd")
    except CallError:
        yield Artifact("out/report.txt", b"content")
    yield Die(Cause.SUPERVISOR_LOST)


def second() -> Playing:
    yield ask("small", path="a.txt")
    yield ask("large", rows=LARGE)
    try:
        yield ask("odd")
    except CallError:
        yield ask("small", path="b.txt")
    yield begin("acts")
    yield Die(Cause.SUPERVISOR_LOST)


def third() -> Playing:
    yield ask("small", path="a.txt")
    yield ask("large", rows=LARGE)
    try:
        yield ask("odd")
    except CallError:
        yield ask("small", path="b.txt")
    yield ask("acts")
    return RESULT


def handlers() -> dict[str, Answers]:
    """What the programs call."""

    def odd(_: CallRequest) -> Any:
        raise CallFailed("OddError", 'says "no" to ä', "a traceback")

    async def acts(_: CallRequest) -> None:
        await asyncio.Event().wait()

    return {
        "small": Answers(lambda request: {"text": "ok", "of": request.args["path"]}, counted=True),
        "large": Answers(lambda _: LARGE + "!"),
        "odd": Answers(odd),
        "acts": Answers(acts, effects=Effects.SOME),
    }


def play(bench: Bench) -> Run:
    """Several generations with blobs, failures, an unknown outcome and a decision about it."""
    run = bench.create()
    cells = ScriptedCells([first, second, third])
    for _ in range(3):
        bench.clock.pass_by(1.5)
        view = bench.drive(run, cells, handlers(), limits=Limits(let_finish_s=0))
    assert (view.status, view.reason) == (Status.INTERRUPTED, "unknown_outcome")
    (unknown,) = [record.seq for record in run.read()[1].records.values() if record.key.fn == "acts"]
    decide_unknown(run, unknown, what="value", value=codec.encode((1, 2)), by="ada")
    view = bench.drive(run, cells, handlers())
    assert view.status is Status.COMPLETED
    assert len(list((run.folder / "blobs").iterdir())) == 3
    return run


@dataclass
class Recorded:
    """A finished run, and how to put it back."""

    bench: Bench
    run: Run
    kept: Path
    raw: bytes
    lines: list[bytes]

    def restore(self) -> None:
        shutil.rmtree(self.run.folder)
        shutil.copytree(self.kept, self.run.folder)

    def journal(self, raw: bytes, *, state: bool = True) -> None:
        """Let these be the bytes of the journal."""
        self.run.journal_path.write_bytes(raw)
        if not state:
            self.run.state_path.unlink(missing_ok=True)

    def problem(self) -> JournalDamaged:
        """How reading is refused."""
        with pytest.raises(JournalDamaged) as caught:
            self.run.read()
        assert caught.value.exit_code == 7
        assert caught.value.fix
        return caught.value


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    bench = Bench(tmp_path_factory.mktemp("home"))
    run = play(bench)
    kept = tmp_path_factory.mktemp("kept") / "run"
    shutil.copytree(run.folder, kept)
    raw = run.journal_path.read_bytes()
    return Recorded(bench, run, kept, raw, raw.splitlines(keepends=True))


@pytest.fixture
def recorded(made: Recorded, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorded]:
    # The same lines are read thousands of times; what a line says depends on its bytes alone, so it is remembered.
    monkeypatch.setattr(journal, "parse", functools.cache(events.parse))
    made.restore()
    yield made
    made.restore()


def folded(journal: Journal) -> History:
    history = History()
    for line in journal.lines:
        history.apply(line)
    return history


# cut


def test_the_journal_cut_at_every_byte_reads_as_a_prefix_or_names_its_line(recorded: Recorded) -> None:
    whole = read(recorded.run.journal_path).lines
    ends = list(itertools.accumulate(len(line) for line in recorded.lines))
    with recorded.run.journal_path.open("r+b") as file:
        for length in range(len(recorded.raw) - 1, -1, -1):
            file.truncate(length)
            count = sum(end <= length for end in ends)
            if count == 0:
                with pytest.raises(JournalDamaged) as caught:
                    read(recorded.run.journal_path)
                assert caught.value.line == 1
            else:
                found = read(recorded.run.journal_path)
                assert (len(found.lines), found.torn) == (count, length - ends[count - 1])
                assert found.lines[-1] == whole[count - 1]
    for count in range(1, len(whole) + 1):  # each prefix tells a consistent story
        history = History()
        for line in whole[:count]:
            history.apply(line)


def test_a_cut_that_state_json_knows_better_is_named_at_every_length(recorded: Recorded) -> None:
    ends = list(itertools.accumulate(len(line) for line in recorded.lines))
    for length in {*ends[:-1], *(end - 1 for end in ends), *(end + 7 for end in ends[:-1])}:
        recorded.journal(recorded.raw[:length])
        whole = recorded.raw[:length].count(b"\n")
        assert recorded.problem().line == max(1, whole + 1)


def test_a_run_cut_anywhere_goes_on_and_says_how_much_was_torn(recorded: Recorded) -> None:
    chance = random.Random(7)
    ends = list(itertools.accumulate(len(line) for line in recorded.lines))
    for count, (begin_at, end) in enumerate(itertools.pairwise(ends), start=1):
        length = chance.choice([begin_at + 1, end - 1, chance.randrange(begin_at, end)])
        recorded.restore()
        recorded.journal(recorded.raw[:length], state=False)
        before = folded(read(recorded.run.journal_path))
        (recorded.run.folder / "run.lock").unlink()
        ledger = handlers() | {"acts": Answers(lambda _: (1, 2), effects=Effects.SOME)}
        view = recorded.bench.drive(recorded.run, ScriptedCells([third]), ledger)
        after = read(recorded.run.journal_path)
        assert after.torn == 0
        assert recorded.run.journal_path.read_bytes()[: ends[count - 1]] == recorded.raw[: ends[count - 1]]
        assert view.generations[-1].torn == length - begin_at
        done = {
            record.key for record in before.records.values() if record.outcome is not None and record.key.fn != "odd"
        }
        assert not done & {request.key for answers in ledger.values() for request in answers.executed}


@pytest.mark.parametrize("state", [True, False], ids=["with state.json", "without"])
def test_the_next_line_never_glues_to_a_torn_one(recorded: Recorded, state: bool) -> None:
    run = recorded.bench.create(run_id="20261130T120000Z-0000000a")
    try:
        view_of(run)  # makes state.json
        for torn in (
            b"{",
            b'{"s":2,"at":17',
            b'{"s":2,"at":1796040000.0,"g":1,"e":"run.started","pid":1',
            b"\0" * 5000,
        ):
            count = len(read(run.journal_path).lines)
            with run.journal_path.open("ab") as file:
                file.write(torn.replace(b'"s":2', b'"s":%d' % (count + 1)))
            if not state:
                run.state_path.unlink(missing_ok=True)
            recorded.bench.drive(run, ScriptedCells([first]), handlers())
            found = read(run.journal_path)
            assert found.torn == 0
            assert folded(found).generations[-1].started.torn >= len(torn)
    finally:
        shutil.rmtree(run.folder)


def test_a_tail_that_no_write_leaves_is_named_rather_than_cut(recorded: Recorded) -> None:
    number = len(recorded.lines) + 1
    for tail in (
        b"x",
        b'{"s":1',
        b'{"a"',
        b'{"s":%d,' % (number + 1),
        b"\0\0x",
        b" ",
        b'{"s":%d,' % number + b"x" * 2_000_000,
    ):
        recorded.journal(recorded.raw + tail)
        assert recorded.problem().line == number
    recorded.journal(recorded.raw[:-1] + b"J", state=False)  # the last newline itself
    assert recorded.problem().line == number - 1


# zeros


def test_zeros_behind_the_last_line_are_cut_off_and_zeros_inside_are_named(recorded: Recorded) -> None:
    raw = recorded.raw
    for size in (1, 100, 4096, 100_000):
        recorded.journal(raw + b"\0" * size)
        assert recorded.run.read()[0].torn == size
    ends = [0, *itertools.accumulate(len(line) for line in recorded.lines)]
    for number, (start, end) in enumerate(itertools.pairwise(ends), start=1):
        middle = (start + end) // 2
        for begin_at, stop in ((start, end), (middle, end), (start, middle), (middle, middle + 1), (middle, end - 1)):
            if end == len(raw) and stop == end:
                continue  # a tail; below
            recorded.journal(raw[:begin_at] + b"\0" * (stop - begin_at) + raw[stop:], state=False)
            # Where the newline is gone too, the line that it makes with the next one begins here.
            assert recorded.problem().line == number


def test_zeros_in_place_of_the_last_lines_are_a_torn_end_that_state_json_knows_better(recorded: Recorded) -> None:
    for count in (1, 3, 10):
        size = sum(map(len, recorded.lines[-count:]))
        for size_left in (size, size - 20):
            recorded.journal(recorded.raw[:-size_left] + b"\0" * size_left)
            assert recorded.problem().line == recorded.raw[:-size_left].count(b"\n") + 1
            recorded.journal(recorded.raw[:-size_left] + b"\0" * size_left, state=False)
            assert recorded.run.read()[0].torn >= size_left
            recorded.restore()


# bits


def test_a_flipped_bit_in_every_line_is_found_and_its_line_named(recorded: Recorded) -> None:
    chance = random.Random(11)
    start, missed = 0, []
    for number, line in enumerate(recorded.lines, start=1):
        form = [
            0,
            1,
            4,
            5,
            len(line) - 1,
            len(line) - 2,
            *(line.index(part) + len(part) for part in (b'"at":', b'"g":', b'"e":"')),
        ]
        seal = [line.rindex(b'"p":"') + 5 + i for i in (0, 13, 31)]
        inside = [*form, *seal, *chance.sample(range(len(line)), min(len(line), 20))]
        if number == len(recorded.lines):
            inside = list(range(len(line)))
        for offset in inside:
            bit = chance.randrange(8)
            changed = bytearray(recorded.raw)
            changed[start + offset] ^= 1 << bit
            recorded.journal(bytes(changed))
            try:
                recorded.run.read()
                missed.append((number, offset, bit))
            except JournalDamaged as error:
                if error.line != number:
                    missed.append((number, offset, bit, error.line, error.problem))
        start += len(line)
    assert missed == []


def test_without_state_json_only_a_change_in_the_last_line_that_leaves_it_an_event_is_not_found(
    recorded: Recorded,
) -> None:
    start = len(recorded.raw) - len(recorded.lines[-1])
    number, named, missed = len(recorded.lines), set(), set()
    whole = made_lines(recorded)
    for offset in range(start, len(recorded.raw)):
        for bit in range(8):
            changed = bytearray(recorded.raw)
            changed[offset] ^= 1 << bit
            recorded.journal(bytes(changed), state=False)
            try:
                found = recorded.run.read()[0]
            except JournalDamaged as error:
                named.add(error.line)
                continue
            assert found.torn == 0  # nothing was cut off silently
            assert found.lines[:-1] == whole[:-1]
            missed.add(offset - start)
    assert named == {number}
    line = recorded.lines[-1]
    for structure in (0, 1, 2, 3, line.index(b'"e":"') + 6, len(line) - 1, len(line) - 2):
        assert structure not in missed
    assert missed  # docs/reference/journal.md says so


def made_lines(recorded: Recorded) -> tuple[Any, ...]:
    return read(recorded.kept / "journal.jsonl").lines


def test_a_line_behind_an_older_state_json_is_bound_by_the_line_after_it(recorded: Recorded) -> None:
    state = json.loads(recorded.run.state_path.read_bytes())
    for seq in (1, len(recorded.lines) // 2, len(recorded.lines) - 1):
        state |= {"seq": seq, "head": read(recorded.run.journal_path).lines[seq].after}
        recorded.run.state_path.write_text(json.dumps(state))
        recorded.run.read()
        recorded.run.state_path.write_text(json.dumps(state | {"head": "f" * 32}))
        assert recorded.problem().line == seq  # a journal written anew, or another one


def test_a_state_json_that_cannot_be_read_costs_nothing(recorded: Recorded) -> None:
    good = recorded.run.state_path.read_bytes()
    for bad in (
        b"",
        b"\0" * 100,
        good[:-1],
        good[:50],
        b"[]",
        b'{"version":2}',
        b'{"version":1,"seq":"7"}',
        b"[" * 100_000,
    ):
        recorded.run.state_path.write_bytes(bad)
        assert view_of(recorded.run).status is Status.COMPLETED
    for stand_in in stand_ins(recorded.run.state_path):
        stand_in()
        assert view_of(recorded.run).status is Status.COMPLETED


# lines


def test_lines_swapped_doubled_removed_or_foreign_are_named(recorded: Recorded) -> None:
    lines, count = recorded.lines, len(recorded.lines)
    foreign = read_foreign(recorded)
    for i in range(count - 1):
        for changed in (
            [*lines[:i], lines[i + 1], lines[i], *lines[i + 2 :]],
            [*lines[:i], *lines[i + 1 :]],
            [*lines[:i], foreign[min(i, len(foreign) - 1)], *lines[i + 1 :]],
            [*lines[:i], b"\n", *lines[i:]],
            [*lines[:i], lines[i][:-1], *lines[i + 1 :]],
        ):
            recorded.journal(b"".join(changed), state=False)
            assert recorded.problem().line == i + 1
        recorded.journal(b"".join([*lines[: i + 1], lines[i], *lines[i + 1 :]]), state=False)
        assert recorded.problem().line == i + 2
    recorded.journal(recorded.raw + lines[-1], state=False)
    assert recorded.problem().line == count + 1


def read_foreign(recorded: Recorded) -> list[bytes]:
    """Lines of another run."""
    other = recorded.bench.create(run_id="20261130T120000Z-0000000b")
    recorded.bench.drive(other, ScriptedCells([first]), handlers())
    lines = other.journal_path.read_bytes().splitlines(keepends=True)
    shutil.rmtree(other.folder)
    return lines


def test_the_journal_of_another_run_is_refused(recorded: Recorded) -> None:
    recorded.journal(b"".join(read_foreign(recorded)), state=False)
    assert recorded.problem().path.name == "run.json"


# files


def stand_ins(path: Path) -> Iterator[Callable[[], None]]:
    """What may stand where a file was: nothing that anybody waits for."""

    def clear() -> None:
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink(missing_ok=True)

    def fifo() -> None:
        clear()
        os.mkfifo(path)

    def directory() -> None:
        clear()
        path.mkdir()

    def link() -> None:
        clear()
        path.symlink_to("/dev/zero")

    yield fifo
    yield directory
    yield link
    clear()


def test_what_is_no_file_is_named_and_nobody_waits_for_it(recorded: Recorded) -> None:
    run, store = recorded.run, recorded.bench.store
    good = recorded.kept / "journal.jsonl"
    blobs = [f"blobs/{path.name}" for path in (recorded.kept / "blobs").iterdir()]
    for name in ("journal.jsonl", "run.json", *blobs):
        for stand_in in stand_ins(run.folder / name):
            stand_in()
            with pytest.raises(JournalDamaged) as caught:
                everything(store.open(run.run_id))
            assert caught.value.path == run.folder / name
        recorded.restore()
    for copy in (good, recorded.kept / "run.json"):  # also a link to the very content
        (run.folder / copy.name).unlink()
        (run.folder / copy.name).symlink_to(copy)
        with pytest.raises(JournalDamaged, match="link"):
            everything(store.open(run.run_id))
        recorded.restore()


def everything(run: Run) -> None:
    """Read the whole run, blobs included."""
    _, history = run.read()
    for record in history.records.values():
        run.value(record.started.args, record.started.args_blob)
        run.value(getattr(record.outcome, "result", None), getattr(record.outcome, "blob", ""))
    result_of(run)


def test_files_that_only_people_read_hang_nobody_either(recorded: Recorded) -> None:
    run = recorded.run
    for stand_in in stand_ins(run.folder / "run.lock"):
        stand_in()
        assert read_owner(run) is None
    for stand_in in stand_ins(run.folder / "logs" / "stdout.log"):
        stand_in()
        with pytest.raises(EngineFailure):
            run.log_text("stdout")
    assert run.log_text("stdout") == ""


def test_a_damaged_blob_is_named_when_it_is_read_and_made_anew_when_its_value_is(recorded: Recorded) -> None:
    chance = random.Random(3)
    for path in (recorded.run.folder / "blobs").iterdir():
        raw = path.read_bytes()
        flipped = bytearray(raw)
        flipped[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
        for bad in (raw[:-1], raw[: len(raw) // 2], b"", bytes(flipped), b"\0" * len(raw), raw + b"\n"):
            path.write_bytes(bad)
            with pytest.raises(JournalDamaged, match=path.name):
                everything(recorded.run)
        blobs = BlobStore(path.parent)
        assert blobs.put(raw) == path.name
        path.unlink()
        path.symlink_to("/dev/zero")
        assert blobs.put(raw) == path.name
        assert path.read_bytes() == raw
        assert not path.is_symlink()
    everything(recorded.run)


def test_a_resume_with_a_damaged_blob_executes_nothing_again(recorded: Recorded) -> None:
    recorded.journal(b"".join(recorded.lines[:-1]), state=False)
    (name,) = {
        record.outcome.blob for record in recorded.run.read()[1].records.values() if getattr(record.outcome, "blob", "")
    }
    path = recorded.run.folder / "blobs" / name
    path.write_bytes(path.read_bytes()[:-1])
    ledger = handlers()
    with pytest.raises(JournalDamaged, match=name):
        recorded.bench.drive(recorded.run, ScriptedCells([third]), ledger)
    assert [request for answers in ledger.values() for request in answers.executed] == []
    shutil.copy(recorded.kept / "blobs" / name, path)
    view = recorded.bench.drive(recorded.run, ScriptedCells([third]), ledger)
    assert view.status is Status.COMPLETED
    assert same(codec.decode(result_of(recorded.run)), RESULT)
    assert [request for answers in ledger.values() for request in answers.executed] == []


def test_a_changed_run_json_is_found_bit_by_bit(recorded: Recorded) -> None:
    path = recorded.run.folder / "run.json"
    raw, chance = path.read_bytes(), random.Random(5)
    for offset in range(len(raw)):
        changed = bytearray(raw)
        changed[offset] ^= 1 << chance.randrange(8)
        path.write_bytes(bytes(changed))
        with pytest.raises(JournalDamaged) as caught:
            recorded.bench.store.open(recorded.run.run_id).read()
        assert caught.value.path == path
    for bad in (b"", raw[:-5], raw[: len(raw) // 2], b"\0" * len(raw)):
        path.write_bytes(bad)
        with pytest.raises(JournalDamaged):
            recorded.bench.store.open(recorded.run.run_id).read()


def test_events_that_cannot_stand_there_are_named_though_every_hash_fits(recorded: Recorded) -> None:
    lines = list(made_lines(recorded))
    started = next(i for i, line in enumerate(lines) if line.event.e == "call.started")
    for wrong in (
        lines[1:],
        lines[:1] + lines[2:],
        lines[:started] + lines[started + 1 :],
        [*lines, lines[-1]],
        [*lines[:3], *lines],
    ):
        recorded.run.journal_path.write_bytes(b"")
        with appending(recorded.run.journal_path, journal=EMPTY, clock=recorded.bench.clock) as writer:
            for line in wrong:
                writer.append(line.generation, line.event)
        recorded.run.state_path.unlink(missing_ok=True)
        assert "changed" not in recorded.problem().problem


def test_facts_that_are_no_json_are_our_failure_and_leave_the_journal_whole(recorded: Recorded) -> None:
    run = recorded.run
    recorded.journal(b"".join(recorded.lines[:3]), state=False)
    before = run.journal_path.read_bytes()
    with appending(run.journal_path, journal=read(run.journal_path), clock=run.clock) as writer:
        for bad in ("\ud800", {1, 2}, "x" * 2_000_000):
            with pytest.raises(EngineFailure, match="cannot be recorded"):
                writer.append(1, events.CallFailed(of=3, type="E", message="m", facts={"usage": bad}))
        assert run.journal_path.read_bytes() == before
