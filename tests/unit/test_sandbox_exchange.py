"""The host's end of the exchange against files that a cell, or an enemy in its place, wrote."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cloche_guest import codec, wire
from cloche_guest.wire import FRAME_BYTES, SEGMENT_BYTES

from engine.errors import ExchangeError
from engine.sandbox import exchange
from engine.sandbox import incoming as incoming_module
from engine.sandbox.exchange import HostLink
from engine.sandbox.frames import Artifact, Call, CaseResult, CellFrame, Drop, End, Hello, Output, Quiet, Ready, Result
from engine.sandbox.incoming import Incoming, Limits
from engine.sandbox.jobs import Case, GateJob, ProbeJob, RunJob
from engine.sandbox.violations import VIOLATIONS

GOLDEN = Path(__file__).parent.parent / "fixtures" / "wire" / "v1"
LIMITS = Limits(
    processes=128,
    open_files=256,
    file_bytes=32 * 1024 * 1024,
    output_bytes=8 * 1024 * 1024,
    output_files=1000,
    output_files_bytes=64 * 1024 * 1024,
    message_bytes=1024 * 1024,
    messages=100_000,
    value_bytes=64 * 1024 * 1024,
)


class CellSide:
    """Writes the cell's segment by name, as a hostile supervisor could."""

    def __init__(self, outbox: Path) -> None:
        self.outbox = outbox
        self.segment = 1
        self.sequence = 0

    def raw(self, data: bytes) -> None:
        with (self.outbox / f"{self.segment:06d}.seg").open("ab") as file:
            file.write(data)

    def send(self, kind: str, **fields: Any) -> None:
        self.sequence += 1
        frame = {"v": 1, "g": 3, "q": self.sequence, "t": kind, **fields}
        self.raw(json.dumps(frame).encode() + b"\n")
        if kind == "rotate":
            self.segment = 3 - self.segment

    def open(self) -> None:
        self.send("hello", nonce="n", attestation={})
        self.send("ready")


@pytest.fixture
def link(tmp_path: Path) -> Iterator[HostLink]:
    made = HostLink(tmp_path, limits=LIMITS, generation=3)
    yield made
    made.close()


@pytest.fixture
def cell(link: HostLink) -> CellSide:
    return CellSide(link.outbox)


def everything(link: HostLink) -> list[CellFrame]:
    return list(iter(link.poll, None))


AT = 1893456000.125
END = {"cause": "exit", "detail": "", "exit": 0, "stragglers": 0, "usage": {}}
CALL = {"c": 1, "scope": "/", "fn": "now", "n": 1, "args": {}, "site": "workflow.py:3"}


# golden files


def lines(name: str) -> list[bytes]:
    return (GOLDEN / name).read_bytes().splitlines()


def test_the_golden_conversation_of_a_cell_is_read(link: HostLink, cell: CellSide) -> None:
    for _ in range(10):
        link.send_ack()  # the conversation acknowledges ten frames
    for line in lines("cell_to_host.jsonl")[:18]:
        cell.raw(line + b"\n")
    hello, ready, read, agent, timer, drop, quiet, void, out, err, test, report, empty, result, end = everything(link)
    assert isinstance(hello, Hello)
    assert hello.nonce == "9f2c4e6a8b0d1f3e5c7a9b8d6f4e2c0a"
    assert ready == Ready()
    assert isinstance(read, Call)
    assert read.args == {"path": "logs/größe.log", "offset": 262144}
    assert read.phase == ("lesen",)
    assert isinstance(agent, Call)
    assert (agent.scope, agent.args, agent.label) == ("/requirements_parse[1]", {"prompt": "日本"}, "prose")
    assert (read.waits, agent.waits, timer.waits) == (False, True, False)
    assert timer.scope == "/task@workflow.log_triage[1]/parallel@steps.pages.load_all[1.2]"
    assert (drop, quiet, void) == (Drop(3), Quiet(3), Quiet(3, 0))
    assert out == Output("stdout", 0, b"caf\xe9 \xff\n")
    assert err == Output("stderr", 4194304, b"tail")
    assert test == CaseResult(0, "passed", "", 0.031, "\\xff\n", True)
    assert (report, empty) == (Artifact("report/2030.md", b"# a"), Artifact("leer.txt", b""))
    assert result == Result({"$tuple": [1, {"$set": []}]}, None)
    assert isinstance(end, End)
    assert (end.cause, end.stragglers) == ("exit", 1)
    assert end.usage["skipped"] == ["report/link: not a regular file"]


@pytest.mark.parametrize("case", lines("refused.jsonl"), ids=lambda line: json.loads(line)["code"])
def test_every_golden_bad_line_is_refused_by_its_name(case: bytes) -> None:
    refused = json.loads(case)
    incoming = Incoming(LIMITS, generation=3)
    with pytest.raises(ExchangeError) as caught:
        incoming.take(base64.b64decode(refused["line_b64"]))
    assert caught.value.code == refused["code"]
    assert type(caught.value) is VIOLATIONS[refused["code"]]


def test_the_host_writes_the_golden_lines_byte_for_byte(tmp_path: Path) -> None:
    golden = [line + b"\n" for line in lines("host_to_cell.jsonl")]
    limits = Limits(**json.loads(golden[0])["limits"])
    link = HostLink(tmp_path, limits=limits, generation=3)
    task = codec.encode({"$kind": "a", "größe": float("nan")})
    link.send_hello(nonce="9f2c4e6a8b0d1f3e5c7a9b8d6f4e2c0a", kind="run", uid=70001, wait_s=120)
    link.send_job(RunJob(entry="log_triage", task=task, seed="00ff", deadline_s=3600.0, at=1893456000.0))
    link.send_ok(1, {"text": "zeile 1\n日本", "next": None, "size": 17}, at=AT)
    written = (link.inbox / "000001.seg").read_bytes().splitlines(keepends=True)
    assert written == golden[:3]
    part = json.loads(golden[3])
    link.send_ok(2, "x" * (part["size"] - 2), at=AT)
    link.send_error(3, type_name="ModelError", message="no answer", traceback="", at=AT)
    link.send_stop(4, "capped")
    link._incoming.received = 9
    link.send_ack()
    link.send_cancel("asked by the owner")
    written = (link.inbox / "000001.seg").read_bytes().splitlines(keepends=True)
    assert {**json.loads(written[3]), "sha256": ""} == {**part, "sha256": ""}
    assert written[4:9] == golden[4:9]
    case = Case("tests/test_workflow.py", "TestShapes", "test_groups", 0, 2)
    gate = GateJob("log_triage", (case,), False, 120.0, 60.0, 65536)
    assert list(json.loads(golden[10])["job"].items()) == list(gate.to_wire().items())
    probe = ProbeJob(("network_inet",), 60.0, 10.0, 65536)
    assert list(json.loads(golden[11])["job"].items()) == list(probe.to_wire().items())
    large = RunJob("log_triage", None, "00ff", 3600.0, 1893456000.0).to_wire(task_part=2)
    assert list(json.loads(golden[12])["job"].items()) == list(large.items())
    link.close()


# files and rights


def test_the_files_have_the_rights_that_keep_the_worker_out(link: HostLink) -> None:
    def mode(path: Path) -> int:
        return path.stat().st_mode & 0o7777

    assert mode(link.inbox) == 0o755
    assert mode(link.outbox) == 0o750
    assert mode(link.inbox / "parts") == 0o750
    assert mode(link.inbox / "000001.seg") == 0o640
    assert [mode(link.outbox / f"{n:06d}.seg") for n in (1, 2)] == [0o660, 0o660]


def test_a_segment_that_was_read_is_emptied_and_its_file_used_again(link: HostLink, cell: CellSide) -> None:
    files = sorted(link.outbox.iterdir())
    assert [path.name for path in files] == ["000001.seg", "000002.seg", "bell"]
    cell.open()
    cell.send("rotate")
    cell.send("output", stream="stdout", offset=0, data="YQ==")
    assert [type(frame) for frame in everything(link)] == [Hello, Ready, Output]
    assert (files[0].stat().st_size, files[0].stat().st_blocks) == (0, 0)
    (ack,) = (link.inbox / "000001.seg").read_bytes().splitlines()
    assert json.loads(ack) == {"v": 1, "g": 3, "q": 1, "t": "ack", "upto": 3}
    for offset in range(1, 4):
        cell.send("rotate")
        cell.send("output", stream="stdout", offset=offset, data="YQ==")
        assert [type(frame) for frame in everything(link)] == [Output]
    assert sorted(link.outbox.iterdir()) == files


def test_the_hosts_segments_rotate_and_go_away_when_acknowledged(link: HostLink, cell: CellSide) -> None:
    cell.open()
    value = "v" * 250_000
    for number in range(1, 40):
        link.send_ok(number, value, at=AT)
    assert [path.name for path in sorted(link.inbox.glob("*.seg"))] == ["000001.seg", "000002.seg"]
    first = (link.inbox / "000001.seg").read_bytes()
    assert len(first) <= SEGMENT_BYTES
    last = json.loads(first.splitlines()[-1])
    assert last["t"] == "rotate"
    cell.send("ack", upto=last["q"])
    everything(link)
    assert [path.name for path in link.inbox.glob("*.seg")] == ["000002.seg"]


def test_a_large_value_crosses_as_a_read_only_file_that_goes_away_when_read(link: HostLink, cell: CellSide) -> None:
    link.send_ok(1, ["ä" * 300_000], at=AT)
    part, reply = map(json.loads, (link.inbox / "000001.seg").read_bytes().splitlines())
    file = link.inbox / part["file"]
    assert json.loads(file.read_bytes()) == ["ä" * 300_000]
    assert file.stat().st_mode & 0o777 == 0o640
    assert reply["ok_part"] == part["id"] == 1
    cell.send("hello", nonce="n", attestation={})
    cell.send("ack", upto=reply["q"])
    everything(link)
    assert not file.exists()


def send_for_ever(link: HostLink, value: str) -> None:
    for number in range(1, 1000):
        link.send_ok(number, value, at=AT)


def test_a_cell_that_does_not_read_is_sent_no_more_than_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "UNREAD_BYTES", 2 * SEGMENT_BYTES)
    link = HostLink(tmp_path, limits=Limits(**{**LIMITS.__dict__, "value_bytes": 1_000_000}), generation=3)

    def on_disk() -> int:
        return sum(path.stat().st_size for path in link.inbox.rglob("*"))

    for value in ("v" * 900_000, "v" * 200_000):
        with pytest.raises(ExchangeError) as caught:
            send_for_ever(link, value)
        assert caught.value.code == "frame.unread"
        assert on_disk() < exchange.UNREAD_VALUES * 1_000_000 + 3 * SEGMENT_BYTES
    link.close()


def test_a_value_past_the_bound_is_not_sent(tmp_path: Path) -> None:
    link = HostLink(tmp_path, limits=Limits(**{**LIMITS.__dict__, "value_bytes": 300_000}), generation=3)
    with pytest.raises(ValueError, match="at most 300000"):
        link.send_ok(1, "x" * 300_000, at=AT)
    link.close()


def test_long_and_odd_error_text_is_clipped_and_made_valid(link: HostLink) -> None:
    link.send_error(1, type_name="E", message="\udcff" + "\x00" * 10**7, traceback="t" * 10**7, at=AT)
    frame = json.loads((link.inbox / "000001.seg").read_bytes())
    assert frame["error"]["message"].startswith("\\udcff")
    assert len(frame["error"]["message"]) < 40_000


# an enemy


def truncate(cell: CellSide) -> None:
    """segment.truncated"""
    os.truncate(cell.outbox / "000001.seg", 10)


def grow(cell: CellSide) -> None:
    """segment.oversized"""
    os.truncate(cell.outbox / "000001.seg", 1 << 40)


def allocate(cell: CellSide) -> None:
    """segment.oversized"""
    descriptor = os.open(cell.outbox / "000001.seg", os.O_RDWR)
    size = os.fstat(descriptor).st_size
    os.posix_fallocate(descriptor, 0, 4 * SEGMENT_BYTES)
    os.ftruncate(descriptor, size)
    libc_keep_size(descriptor, 4 * SEGMENT_BYTES)
    os.pwrite(descriptor, b"x", size)
    os.close(descriptor)


def libc_keep_size(descriptor: int, length: int) -> None:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    assert libc.fallocate(descriptor, 1, 0, length) == 0, ctypes.get_errno()


def endless_line(cell: CellSide) -> None:
    """frame.oversized"""
    cell.raw(b"x" * (FRAME_BYTES + 10))


def after_rotate(cell: CellSide) -> None:
    """frame.out_of_order"""
    cell.sequence += 1
    rotate = {"v": 1, "g": 3, "q": cell.sequence, "t": "rotate"}
    cell.raw(json.dumps(rotate).encode() + b"\n{}\n")


@pytest.mark.parametrize("attack", [truncate, grow, allocate, endless_line, after_rotate])
def test_an_attack_on_the_files_is_refused_by_name(
    link: HostLink, cell: CellSide, attack: Callable[[CellSide], None]
) -> None:
    cell.open()
    everything(link)
    attack(cell)
    with pytest.raises(ExchangeError) as caught:
        everything(link)
    assert caught.value.code == attack.__doc__


def test_the_reader_follows_its_descriptor_and_not_the_name(link: HostLink, cell: CellSide, tmp_path: Path) -> None:
    cell.open()
    (link.outbox / "000001.seg").rename(tmp_path / "moved")
    (link.outbox / "000001.seg").symlink_to("/etc/passwd")
    assert [type(frame) for frame in everything(link)] == [Hello, Ready]


BAD = [
    ("frame.out_of_order", [("ready", {})]),
    ("frame.out_of_order", [("hello", {"nonce": "n", "attestation": {}}), ("call", CALL)]),
    ("frame.out_of_order", [*[("hello", {"nonce": "n", "attestation": {}})] * 2]),
]

AFTER_READY: list[tuple[str, list[tuple[str, dict[str, Any]]]]] = [
    ("call.repeated", [("call", CALL), ("call", CALL)]),
    ("call.repeated", [("call", {**CALL, "c": 0})]),
    ("call.out_of_order", [("call", {**CALL, "c": 2})]),
    ("frame.bad_field", [("call", {**CALL, "args": []})]),
    ("frame.bad_field", [("call", {**CALL, "args": {"$dict": [[1, 2]]}})]),
    ("frame.bad_field", [("call", {**CALL, "args_part": 1})]),
    ("frame.bad_field", [("call", {**CALL, "n": 0})]),
    ("frame.bad_field", [("call", {**CALL, "n": 2})]),
    ("frame.bad_field", [("call", {**CALL, "scope": "../x"})]),
    ("frame.bad_field", [("call", {**CALL, "fn": "a\nb"})]),
    ("frame.bad_field", [("call", {**CALL, "phase": [1]})]),
    ("frame.bad_field", [("call", {**CALL, "scope": "/parallel@[1.1]"})]),
    ("frame.bad_field", [("call", {**CALL, "scope": "/parallel@a[1]"})]),
    ("frame.bad_field", [("call", {**CALL, "scope": "/task@a/b[1]"})]),
    ("frame.bad_field", [("call", {**CALL, "scope": "/a[1]" * 21})]),
    ("frame.bad_field", [("call", {**CALL, "waits": 1})]),
    ("frame.bad_field", [("quiet", {"upto": 1})]),
    ("frame.bad_field", [("call", CALL), ("quiet", {"upto": 0})]),
    ("frame.bad_field", [("call", CALL), ("quiet", {"upto": 1, "ahead": 1})]),
    ("frame.bad_field", [("quiet", {"upto": 0, "ahead": 0}), ("quiet", {"upto": 0, "ahead": 0})]),
    ("call.unknown", [("drop", {"call": 1})]),
    ("call.unknown", [("call", CALL), ("drop", {"call": 1}), ("drop", {"call": 1})]),
    ("frame.out_of_order", [("result", {"value": 1}), ("quiet", {"upto": 0})]),
    ("value.not_canonical", [("call", {**CALL, "args": {"a": {"$set": [2, 1]}}})]),
    ("value.not_canonical", [("call", {**CALL, "args": {"a": {"$data": ["os:system", {}]}}})]),
    ("part.unknown", [("call", {k: v for k, v in {**CALL, "args_part": 7}.items() if k != "args"})]),
    ("part.out_of_order", [("part", {"id": 2, "i": 1, "of": 1, "data": "1"})]),
    ("part.out_of_order", [("part", {"id": 1, "i": 2, "of": 2, "data": "1"})]),
    ("part.out_of_order", [("part", {"id": 1, "i": 1, "of": 2, "data": ""}), ("part", {"id": 2, "i": 1, "of": 1, "data": "1"})]),
    ("part.out_of_order", [("part", {"id": 1, "i": 1, "of": 2, "data": ""}), ("part", {"id": 1, "i": 2, "of": 3, "data": "1"})]),
    ("frame.bad_field", [("part", {"id": 1, "i": 0, "of": 0, "data": "1"})]),
    ("part.oversized", [("part", {"id": 1, "i": 1, "of": 1, "data": "1" * 600_000})]),
    ("frame.not_json", [("part", {"id": 1, "i": 1, "of": 1, "data": "{]"}), ("result", {"value_part": 1})]),
    ("frame.not_json", [("part", {"id": 1, "i": 1, "of": 1, "data": "1e999"}), ("result", {"value_part": 1})]),
    ("frame.too_deep", [("part", {"id": 1, "i": 1, "of": 1, "data": "[" * 200_000}), ("result", {"value_part": 1})]),
    ("frame.bad_field", [("output", {"stream": "stdin", "offset": 0, "data": ""})]),
    ("frame.bad_field", [("output", {"stream": "stdout", "offset": -1, "data": ""})]),
    ("frame.bad_field", [("output", {"stream": "stdout", "offset": 0, "data": "***"})]),
    ("frame.bad_field", [("output", {"stream": "stdout", "offset": at, "data": ""}) for at in (9, 8)]),
    *[
        ("frame.bad_field", [("artifact", {"path": path, "i": 1, "of": 1, "size": 1, "data": "YQ=="})])
        for path in ("../x", "/x", "a//b", "a/..", "", "a\\b", "x" * 201, "a\x00b", "a/./b", "a\u202eb")
    ],
    *[
        ("frame.bad_field", [("artifact", {"path": path, "i": 1, "of": 1, "size": 1, "data": "YQ=="}) for path in paths])
        for paths in (["\U0001f600" * 64], ["/".join("abcdefghijklm")], ["a", "a/b"], ["a/b/c", "a/b"])
    ],
    ("part.oversized", [("artifact", {"path": "a", "i": 1, "of": 1, "size": 1 << 40, "data": ""})]),
    ("part.oversized", [("artifact", {"path": "a", "i": 1, "of": 1, "size": 0, "data": "YQ=="})]),
    (
        "part.out_of_order",
        [("artifact", {"path": "ab"[i - 1], "i": i, "of": 2, "size": 2, "data": "YQ=="}) for i in (1, 2)],
    ),
    ("frame.bad_field", [("artifact", {"path": "a", "i": 1, "of": 1, "size": 1, "data": "YQ=="})] * 2),
    ("frame.bad_field", [("test", {"case": 0, "outcome": "fine", "detail": "", "duration_s": 0, "output": "", "entered": True})]),
    ("frame.out_of_order", [("result", {"value": 1}), ("result", {"value": 1})]),
    ("frame.out_of_order", [("result", {"value": 1}), ("call", CALL)]),
    ("frame.bad_field", [("result", {})]),
    ("frame.bad_field", [("result", {"value": 1, "error": {}})]),
    ("frame.bad_field", [("result", {"error": {"type": 1}})]),
    ("frame.bad_field", [("call", CALL), ("end", {**END, "calls": [1, 1]})]),
    ("frame.bad_field", [("call", CALL), ("end", {**END, "calls": ["1"]})]),
    ("frame.bad_field", [("end", {"cause": "operator", "detail": "", "exit": 0, "stragglers": 0, "usage": {}})]),
    ("frame.bad_field", [("end", {"cause": "exit", "detail": "", "exit": 0, "calls": [1], "stragglers": 0, "usage": {}})]),
    ("frame.out_of_order", [("end", {"cause": "exit", "detail": "", "exit": 0, "stragglers": 0, "usage": {}}), ("call", CALL)]),
    ("frame.bad_field", [("ack", {"upto": 1})]),
]  # fmt: skip


def test_a_cell_leaves_at_most_a_thousand_calls_unanswered(link: HostLink, cell: CellSide) -> None:
    cell.open()
    for number in range(1, 1001):
        cell.send("call", **{**CALL, "c": number, "n": number})
    assert len(everything(link)) == 1002
    link.send_ok(7, None, at=AT)
    cell.send("drop", call=8)
    for number in range(1001, 1003):
        cell.send("call", **{**CALL, "c": number, "n": number})
    assert len(everything(link)) == 3
    cell.send("call", **{**CALL, "c": 1003, "n": 1003})
    with pytest.raises(ExchangeError) as caught:
        everything(link)
    assert caught.value.code == "call.too_many"


def test_a_cell_that_leaves_calls_of_many_small_parts_open_is_refused_before_they_fill_the_host() -> None:
    limit = 1024 * 1024
    incoming = Incoming(replace(LIMITS, value_bytes=limit), generation=7)
    frames: list[dict[str, Any]] = [{"t": "hello", "nonce": "n", "attestation": {}}, {"t": "ready"}]
    parts = {"x": [[]] * 5_000}
    fit = (3 * limit + 1024 * 1024) // (5_000 * (60 + 12))
    frames += [{"t": "call", **CALL, "c": number, "n": number, "args": parts} for number in range(1, fit + 2)]
    lines = [wire.dump({"v": 1, "g": 7, "q": q, **frame}).rstrip() for q, frame in enumerate(frames, 1)]
    for line in lines[:-1]:
        incoming.take(line)
    with pytest.raises(ExchangeError) as caught:
        incoming.take(lines[-1])
    assert caught.value.code == "call.too_many"


def test_a_call_that_was_answered_cannot_be_dropped(link: HostLink, cell: CellSide) -> None:
    cell.open()
    cell.send("call", **CALL)
    everything(link)
    link.send_ok(1, None, at=AT)
    cell.send("drop", call=1)
    with pytest.raises(ExchangeError) as caught:
        everything(link)
    assert caught.value.code == "call.unknown"


def test_a_reply_that_is_sent_ahead_says_for_which_call(link: HostLink) -> None:
    link.send_ok(5, None, at=1893456001.5, ahead="5f" * 32)
    written = json.loads((link.inbox / "000001.seg").read_bytes())
    assert {**written, "q": 0} == {**json.loads(lines("host_to_cell.jsonl")[13]), "q": 0}


@pytest.mark.parametrize(("code", "frames"), BAD)
def test_a_frame_before_its_time_is_refused(link: HostLink, cell: CellSide, code: str, frames: list[Any]) -> None:
    for kind, fields in frames:
        cell.send(kind, **fields)
    with pytest.raises(ExchangeError) as caught:
        everything(link)
    assert caught.value.code == code


@pytest.mark.parametrize(("code", "frames"), AFTER_READY)
def test_a_forged_frame_is_refused_by_name(link: HostLink, cell: CellSide, code: str, frames: list[Any]) -> None:
    cell.open()
    for kind, fields in frames:
        cell.send(kind, **fields)
    with pytest.raises(ExchangeError) as caught:
        everything(link)
    assert caught.value.code == code


def test_more_messages_than_the_bound_are_refused() -> None:
    incoming = Incoming(Limits(**{**LIMITS.__dict__, "messages": 3}), generation=1)

    def take(kind: str, **fields: Any) -> None:
        frame = {"v": 1, "g": 1, "q": incoming.received + 1, "t": kind, **fields}
        incoming.take(json.dumps(frame).encode())

    take("hello", nonce="n", attestation={})
    take("ready")
    for number in (1, 2, 3):
        take("call", **{**CALL, "c": number})
    with pytest.raises(ExchangeError) as caught:
        take("call", **{**CALL, "c": 4})
    assert caught.value.code == "frame.too_many"


def test_a_program_that_pauses_after_every_byte_it_prints_does_not_become_the_failure_of_its_cell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(incoming_module, "OWN_FRAMES", 10)
    incoming = Incoming(Limits(**{**LIMITS.__dict__, "messages": 3}), generation=1)

    def take(kind: str, **fields: Any) -> None:
        frame = {"v": 1, "g": 1, "q": incoming.received + 1, "t": kind, **fields}
        incoming.take(json.dumps(frame).encode())

    take("hello", nonce="n", attestation={})
    take("ready")
    for offset in range(100):
        take("output", stream="stdout", offset=offset, data="eA==")
    with pytest.raises(ExchangeError) as caught:
        take("output", stream="stdout", offset=100, data="")
    assert caught.value.code == "frame.bad_field"


def test_values_in_parts_are_bounded_together() -> None:
    incoming = Incoming(Limits(**{**LIMITS.__dict__, "value_bytes": 500_000}), generation=1)

    def take(kind: str, **fields: Any) -> None:
        frame = {"v": 1, "g": 1, "q": incoming.received + 1, "t": kind, **fields}
        incoming.take(json.dumps(frame).encode())

    take("hello", nonce="n", attestation={})
    take("ready")
    for i in (1, 2):
        take("part", id=1, i=i, of=9, data="1" * 500_000)
    with pytest.raises(ExchangeError) as caught:
        take("part", id=1, i=3, of=9, data="1")
    assert caught.value.code == "part.oversized"


def test_more_output_than_is_kept_is_refused() -> None:
    incoming = Incoming(Limits(**{**LIMITS.__dict__, "output_bytes": 1024}), generation=1)
    data = base64.b64encode(b"x" * 600_000).decode()

    def take(kind: str, **fields: Any) -> None:
        frame = {"v": 1, "g": 1, "q": incoming.received + 1, "t": kind, **fields}
        incoming.take(json.dumps(frame).encode())

    take("hello", nonce="n", attestation={})
    take("ready")
    take("output", stream="stdout", offset=0, data=data)
    with pytest.raises(ExchangeError) as caught:
        take("output", stream="stdout", offset=600_000, data=data)
    assert caught.value.code == "part.oversized"


def test_a_line_cut_off_after_the_last_word_is_named(link: HostLink, cell: CellSide) -> None:
    cell.open()
    cell.send("end", cause="exit", detail="", exit=0, stragglers=0, usage={})
    cell.raw(b'{"v":1')
    everything(link)
    with pytest.raises(ExchangeError) as caught:
        link.check_finished()
    assert caught.value.code == "frame.unfinished"


def test_text_with_surrogates_is_written_out_and_never_kept(link: HostLink, cell: CellSide) -> None:
    cell.open()
    cell.raw(b'{"v":1,"g":3,"q":3,"t":"result","error":{"type":"E","message":"a\xc3\xa4","traceback":""}}\n')
    (*_, result) = everything(link)
    assert isinstance(result, Result)
    assert result.error is not None
    assert result.error.message.encode() == b"a\xc3\xa4"
