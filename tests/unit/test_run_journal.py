"""The journal file: whole lines, a torn end, damage that is named, a full disk."""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import os
from pathlib import Path

import pytest
from cloche_guest import codec

from engine.errors import EngineFailure, StorageFull
from engine.run.calls import CallKey
from engine.run.events import (
    FIRST_HASH,
    FORMAT,
    BadLine,
    CallCompleted,
    CallFailed,
    CallStarted,
    Decision,
    ErrorText,
    Event,
    Line,
    RunCreated,
    RunFinished,
    RunStarted,
    dump,
    parse,
)
from engine.run.journal import Journal, JournalDamaged, appending, read
from engine.run.status import Status
from tests.helpers.runs import StillClock

KEY = CallKey("/requirements_parse[1]", "read", 12, "0123456789abcdef" * 4)
EVENTS: list[Event] = [
    RunCreated(format=FORMAT, run="r", spec="5" * 64),
    RunStarted(pid=7, host="here"),
    CallStarted(key=KEY, args={"path": "a.txt"}, site="workflow.py:12"),
    CallCompleted(of=3, result={"text": "äöü", "next": None}),
    CallStarted(key=KEY._replace(n=13), args_blob="e" * 64, label="l", phase=["p"], counted=True),
    CallFailed(of=5, type="E", message="m", facts={"replies": [1]}),
    Decision(what="raise_cap", value=50),
    RunFinished(status=Status.FAILED, reason="program", error=ErrorText(type="E", message="m"), cause=5),
]
EMPTY = Journal((), 0, 0, FIRST_HASH)


def written(path: Path) -> bytes:
    """A journal of every kind of line."""
    with appending(path, journal=EMPTY, clock=StillClock()) as writer:
        for event in EVENTS:
            writer.append(1, event)
    return path.read_bytes()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


def test_what_was_appended_is_read_back_event_by_event(path: Path) -> None:
    written(path)
    found = read(path)
    assert [line.event for line in found.lines] == EVENTS
    assert [line.seq for line in found.lines] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert (found.size, found.torn) == (path.stat().st_size, 0)


def test_lines_have_the_documented_form_and_are_chained(path: Path) -> None:
    raw = written(path).splitlines(keepends=True)
    assert list(json.loads(raw[2])) == ["s", "at", "g", "e", "key", "args", "site", "p"]
    assert json.loads(raw[0])["p"] == "0" * 32
    for before, line in itertools.pairwise(raw):
        assert json.loads(line)["p"] == hashlib.sha256(before).hexdigest()[:32]


def test_a_call_costs_at_most_400_bytes_beyond_arguments_and_result() -> None:
    at = 1796044087.123456
    args, result = {"path": "a.txt"}, {"text": "x" * 1000}
    lines = [
        Line(123456, at, 12, CallStarted(key=KEY, args=args, site="workflows/log_triage/steps/scan.py:131"), "f" * 32),
        Line(123457, at, 12, CallCompleted(of=123456, result=result), "f" * 32),
    ]
    payload = len(json.dumps(args, separators=(",", ":"))) + len(json.dumps(result, separators=(",", ":")))
    assert sum(len(dump(line)) for line in lines) - payload <= 400


def test_a_journal_cut_at_any_byte_reads_as_its_whole_lines(path: Path) -> None:
    raw = written(path)
    first = raw.index(b"\n") + 1
    for length in range(len(raw) + 1):
        path.write_bytes(raw[:length])
        if length < first:
            with pytest.raises(JournalDamaged) as caught:
                read(path)
            assert caught.value.line == 1
            continue
        found = read(path)
        assert len(found.lines) == raw[:length].count(b"\n")
        assert found.torn == length - (raw[:length].rfind(b"\n") + 1)


def test_a_torn_last_line_is_cut_off_and_never_appended_to(path: Path) -> None:
    raw = written(path)
    for length in range(raw[:-1].rindex(b"\n") - 10, len(raw)):  # inside the last line, and around the end before it
        path.write_bytes(raw[:length])
        with appending(path, journal=read(path), clock=StillClock()) as writer:
            writer.append(1, EVENTS[6])
        found = read(path)
        assert found.torn == 0
        assert [line.event for line in found.lines] == [*EVENTS[: raw[:length].count(b"\n")], EVENTS[6]]


def test_a_flipped_bit_in_any_byte_is_an_error_that_names_its_line(path: Path) -> None:
    raw = written(path)
    for offset in range(len(raw)):
        line = raw[:offset].count(b"\n") + 1
        if line == len(EVENTS):
            break  # nothing is chained to the last line yet; state.json vouches for it
        changed = bytearray(raw)
        changed[offset] ^= 0x01
        path.write_bytes(bytes(changed))
        with pytest.raises(JournalDamaged) as caught:
            read(path)
        # A line end that is gone, or a new one, moves the damage to the line that it makes.
        assert caught.value.line == line, (offset, raw[offset : offset + 1])


@pytest.mark.parametrize("taken", range(1, len(EVENTS)))
def test_a_missing_line_is_named(path: Path, taken: int) -> None:
    raw = written(path).splitlines(keepends=True)
    if taken == len(raw):
        return
    path.write_bytes(b"".join(raw[: taken - 1] + raw[taken:]))
    with pytest.raises(JournalDamaged) as caught:
        read(path)
    assert caught.value.line in (taken, taken - 1)


def test_a_full_disk_leaves_no_half_line_and_writing_goes_on_when_there_is_space(path: Path) -> None:
    before = written(path)
    with appending(path, journal=read(path), clock=StillClock()) as writer:
        _limit_file_size(len(before) + 50)
        try:
            with pytest.raises(EngineFailure):
                writer.append(1, EVENTS[2])
        finally:
            _limit_file_size(None)
        assert path.read_bytes() == before
        writer.append(1, EVENTS[6])
    assert len(read(path).lines) == len(EVENTS) + 1


def _limit_file_size(limit: int | None) -> None:
    """The kernel writes up to the limit and then refuses: a disk that fills up inside a line."""
    import resource
    import signal

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard if limit is None else limit, hard))


def test_no_space_is_told_as_storage_full(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    before = written(path)

    def full(_descriptor: int, _data: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with appending(path, journal=read(path), clock=StillClock()) as writer:
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full)
            with pytest.raises(StorageFull):
                writer.append(1, EVENTS[2])
        assert path.read_bytes() == before


def test_several_events_are_written_together(path: Path) -> None:
    with appending(path, journal=EMPTY, clock=StillClock()) as writer:
        lines = writer.append(1, *EVENTS)
    assert tuple(lines) == read(path).lines


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"nonsense",
        b'{"s":1}',
        b'{"s":1,"at":1.0,"g":1,"e":"run.imagined","p":"x"}',
        b'{"s":1,"at":1.0,"g":1,"e":"call.unknown","of":"3","p":"x"}',
        b'{"s":1,"at":1.0,"g":1,"e":"call.unknown","of":3,"more":1,"p":"x"}',
        b'{"s":1,"at":1.0,"g":1,"e":"call.completed","of":3,"p":"x"}',
        b'{"s":1,"at":1.0,"g":1,"e":"call.completed","of":3,"result":1,"blob":"b","p":"x"}',
        b'{"s":1,"at":1.0,"g":1,"e":"call.started","key":["/","f",1,"d"],"p":"x"}',
        b'{"s":1,"at":1.0,"g":1,"e":"run.finished","status":"completed","p":"x"}',
        b'{"s":1,"at":1.0,"g":1,"e":"run.finished","status":"odd","p":"x"}',
        b'{"s":1,"at":NaN,"g":1,"e":"call.unknown","of":3,"p":"x"}',
        b'{"s":"1","at":1.0,"g":1,"e":"call.unknown","of":3,"p":"x"}',
        b'\xff{"s":1,"at":1.0,"g":1,"e":"call.unknown","of":3,"p":"x"}',
    ],
)
def test_a_line_of_another_form_is_refused(raw: bytes) -> None:
    with pytest.raises(BadLine):
        parse(raw)


def test_a_result_of_none_is_a_result(path: Path) -> None:
    line = Line(1, 1.0, 1, CallCompleted(of=3, result=None), FIRST_HASH)
    assert b'"result":null' in dump(line)
    assert parse(dump(line).removesuffix(b"\n")) == line


def test_a_value_nested_as_deep_as_one_may_be_is_written_and_read() -> None:
    value: object = ()
    for _ in range(codec.DEPTH - 1):
        value = {1: value}  # three levels of JSON for one of the value
    encoded = codec.encode(value)
    line = Line(1, 1.5, 1, CallCompleted(of=1, result=encoded), FIRST_HASH)
    read_back = parse(dump(line)[:-1])
    assert isinstance(read_back.event, CallCompleted)
    assert codec.decode(read_back.event.result) == value


def test_a_fact_that_json_cannot_hold_is_refused() -> None:
    line = Line(1, 1.5, 1, CallCompleted(of=1, result=1, facts={"usage": 2**70}), FIRST_HASH)
    with pytest.raises(BadLine):
        dump(line)
