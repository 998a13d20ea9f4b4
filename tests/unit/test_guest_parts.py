"""Parts of the guest by themselves: streams, segments, mount tables, scratch folders, scopes, failures."""

import hashlib
import os
import tracemalloc
from pathlib import Path

import pytest
from cloche import CallError
from cloche._scopes import Scope
from cloche_guest import attest, collect, failure, scratch, wire
from cloche_guest.link import HostBroke, Reader, Received, Writer, hold_part, read_part, segment
from cloche_guest.streams import Stream, clipped


def kept(limit, *chunks):
    stream = Stream(limit)
    for chunk in chunks:
        stream.feed(chunk)
    pieces = []
    while (piece := stream.take()) is not None:
        pieces.append(piece)
    return [*pieces, *stream.tail()], stream


@pytest.mark.parametrize(
    ("limit", "chunks", "expected", "cut"),
    [
        (10, [b"12345"], [(0, b"12345")], 0),
        (10, [b"1234567890"], [(0, b"12345"), (5, b"67890")], 0),
        (10, [b"12345678901"], [(0, b"12345"), (6, b"78901")], 1),
        (10, [b"x" * 7, b"y" * 7, b"z"], [(0, b"xxxxx"), (10, b"yyyyz")], 5),
        (3, [b"a", b"b", b"c", b"d"], [(0, b"a"), (2, b"cd")], 1),
        (0, [b"abc"], [], 3),
        (10, [], [], 0),
    ],
)
def test_a_stream_keeps_its_head_and_its_tail_at_their_offsets(limit, chunks, expected, cut):
    pieces, stream = kept(limit, *chunks)
    assert pieces == expected
    assert (stream.total, stream.cut) == (sum(map(len, chunks)), cut)


def test_a_flood_costs_no_more_memory_than_the_bound():
    stream = Stream(1000)
    for _ in range(10_000):
        stream.feed(b"x" * 100)
    assert stream._tail_size <= 600
    assert "[999000 bytes cut]" in clipped(stream)


def test_output_that_comes_in_pieces_of_two_bytes_takes_no_more_memory_than_that_of_large_ones():
    limit = 100_000
    stream = Stream(limit)
    tracemalloc.start()
    try:
        for number in range(60_000):
            stream.feed(b"%02d" % (number % 100))
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken < 2 * limit
    assert stream.tail()[-1][1].endswith(b"979899")


def test_a_writer_waits_until_the_next_segments_file_is_empty_and_takes_turns(tmp_path):
    files = [tmp_path / f"{number:06d}.seg" for number in (1, 2)]
    for file in files:
        file.touch()
    writer = Writer(str(tmp_path))
    writer.generation = 7
    big = "x" * 1_000_000
    for i in range(20):
        writer.send("part", id=1, i=i, of=20, data=big)
    assert writer.blocked
    assert not writer.flush()
    assert all(0 < file.stat().st_size <= wire.SEGMENT_BYTES for file in files)
    lines = [line for file in files for line in file.read_bytes().splitlines()]
    os.truncate(files[0], 0)
    assert writer.flush()
    assert sorted(tmp_path.iterdir()) == files
    lines += files[0].read_bytes().splitlines()
    frames = [wire.parse(line) for line in lines]
    assert [frame["q"] for frame in frames] == list(range(1, 23))
    assert [frame["t"] for frame in frames].count("rotate") == 2
    assert [frame["i"] for frame in frames if frame["t"] == "part"] == list(range(20))


def host(directory, number, *frames, first=1):
    with Path(segment(str(directory), number)).open("ab") as file:
        for q, frame in enumerate(frames, first):
            file.write(wire.dump({"v": 1, "g": 3, "q": q, **frame}))


def test_a_reader_follows_segments_as_they_come(tmp_path):
    reader = Reader(str(tmp_path))
    assert reader.next() is None
    host(tmp_path, 1, {"t": "ack", "upto": 1}, {"t": "rotate"})
    assert [reader.next()["t"], reader.next()["t"]] == ["ack", "rotate"]
    assert reader.next() is None
    host(tmp_path, 2, {"t": "cancel", "reason": "日"}, first=3)
    assert reader.next()["reason"] == "日"
    assert (reader.received, reader.generation) == (3, 3)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (b'{"v":1,"g":3,"q":2,"t":"ack","upto":1}\n', "frame.out_of_order"),
        (b'{"v":2,"g":3,"q":1,"t":"ack","upto":1}\n', "frame.wrong_version"),
        (b'{"v":1,"g":"3","q":1,"t":"ack","upto":1}\n', "frame.wrong_generation"),
        (b'{"v":1,"g":3,"q":1,"t":"call"}\n', "frame.unknown_type"),
        (b"x" * wire.FRAME_BYTES, "frame.oversized"),
        (b'{"v":1,"g":3,"q":1,"t":"rotate"}\n{}\n', "frame.out_of_order"),
    ],
)
def test_a_reader_refuses_what_the_host_may_not_say(tmp_path, line, name):
    (tmp_path / "000001.seg").write_bytes(line)
    reader = Reader(str(tmp_path))
    with pytest.raises(HostBroke, match=name):
        reader.next()


def test_a_value_of_the_host_must_be_what_was_announced(tmp_path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "1").write_text('"日"')
    data = '"日"'.encode()
    frame = {"id": 1, "file": "parts/1", "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}

    def taken(frame):
        received = Received(frame)
        hold_part(str(tmp_path), received)
        return read_part(received, value_bytes=100)

    assert taken(frame) == '"日"'
    for change in (
        {"file": "../x"},
        {"size": 4},
        {"size": -1},
        {"size": 200},
        {"sha256": "0"},
        {"id": 2, "file": "parts/2"},
    ):
        with pytest.raises(HostBroke, match=r"part\.unknown"):
            taken({**frame, **change})


def test_a_part_is_read_although_the_host_removed_it_after_it_was_announced(tmp_path):
    path, data = tmp_path / "parts" / "1", b'"x"'
    path.parent.mkdir()
    path.write_bytes(data)
    frame = Received({"id": 1, "file": "parts/1", "size": 3, "sha256": hashlib.sha256(data).hexdigest()})
    hold_part(str(tmp_path), frame)
    path.unlink()
    assert read_part(frame, value_bytes=100) == '"x"'


def test_a_mount_table_is_read_with_spaces_and_optional_fields():
    text = (
        "36 35 98:0 / / ro,relatime - overlay overlay rw,lowerdir=/a b\n"
        "40 36 0:5 /in /cloche\\040in ro,nosuid shared:2 master:1 - ext4 /dev/sda1 rw\n"
    )
    first, second = attest.mounts(text)
    assert (first["point"], first["options"], first["type"]) == ("/", ["ro", "relatime"], "overlay")
    assert (second["point"], second["root"], second["super_options"]) == ("/cloche in", "/in", ["rw"])
    assert attest.interfaces("Inter-|\n face |\n    lo: 0\n  eth0: 1\n") == ["lo", "eth0"]


def test_the_guests_digest_changes_with_a_byte_and_not_with_caches(tmp_path):
    (tmp_path / "cloche" / "__pycache__").mkdir(parents=True)
    (tmp_path / "cloche" / "a.py").write_text("1")
    before = attest.guest_digest(str(tmp_path))
    (tmp_path / "cloche" / "__pycache__" / "a.pyc").write_text("x")
    assert attest.guest_digest(str(tmp_path)) == before
    (tmp_path / "cloche" / "a.py").write_text("2")
    assert attest.guest_digest(str(tmp_path)) != before


def test_a_scratch_folder_is_emptied_however_deep_and_full(tmp_path):
    deep = tmp_path / "s"
    deep.mkdir()
    here = Path.cwd()
    try:
        os.chdir(deep)
        for _ in range(1200):
            Path("d" * 200).mkdir()
            os.chdir("d" * 200)
    finally:
        os.chdir(here)
    for i in range(50):
        (deep / f"f{i}").touch()
        (deep / f"g{i}").mkdir()
        (deep / f"g{i}" / "x").symlink_to("/etc/passwd")
    assert scratch.empty([str(deep), str(tmp_path / "missing")]) == 0
    assert list(deep.iterdir()) == []


def test_output_files_are_listed_without_following_anything(tmp_path):
    top = tmp_path / "output"
    (top / "a").mkdir(parents=True)
    (top / "a" / "x").write_text("12")
    (top / "z").write_text("")
    (top / "up").symlink_to("..")
    os.mkfifo(top / "fifo")
    Path(os.fsdecode(bytes(top / "dir") + b"\xff")).mkdir()
    found = collect.find(str(top), files=10, total_bytes=10)
    assert found.files == [("a/x", 2), ("z", 0)]
    assert (found.left_out, found.problem) == (3, "")
    assert any(entry.startswith("dir\\udcff: ") for entry in found.skipped)
    assert collect.find(str(top), files=1, total_bytes=10).problem
    assert collect.find(str(top), files=10, total_bytes=1).problem
    assert collect.find(str(tmp_path / "none"), files=1, total_bytes=1).files == []


def test_pieces_of_output_files_fit_into_frames():
    sent = []
    receiver = collect.Receiver(lambda kind, **fields: sent.append(wire.dump({"t": kind, **fields})))
    size = 2 * collect.PIECE_BYTES
    header = f'{{"problem":"","skipped":[],"left_out":0,"files":[["a",{size}],["b",0]]}}\n'.encode()
    data = header + b"x" * size
    for i in range(0, len(data), 10_000):
        receiver.feed(data[i : i + 10_000])
    frames = [wire.parse(line[:-1]) for line in sent]
    assert [(f["path"], f["i"], f["of"], f["size"]) for f in frames] == [
        ("a", 1, 2, size),
        ("a", 2, 2, size),
        ("b", 1, 1, 0),
    ]
    assert receiver.complete


def test_scopes_count_calls_and_entries_where_they_stand():
    main = Scope()
    assert [main.path, main.count("f"), main.count("f"), main.count("g")] == ["/", 1, 2, 1]
    first = main.child("a")
    assert [first.path, first.count("f"), first.child("b").path, main.child("a").path] == [
        "/a[1]",
        1,
        "/a[1]/b[1]",
        "/a[2]",
    ]
    assert main.child("parallel@x.y", number=3, item=2).path == "/parallel@x.y[3.2]"


def test_scopes_stand_at_most_twenty_deep():
    scope = Scope()
    for _ in range(20):
        scope = scope.child("a")
    assert wire.SCOPE.fullmatch(scope.path)
    with pytest.raises(RuntimeError, match="at most 20 deep"):
        scope.child("a")


def raised(how):
    failed = CallError("ModelError", "down")
    failed._number = 4
    try:
        try:
            raise failed
        except CallError as error:
            how(error)
    except Exception as error:
        return error


def implicit(_error):
    raise ValueError


def explicit(error):
    raise ValueError from error


def again(_error):
    raise


@pytest.mark.parametrize(("how", "calls"), [(implicit, []), (explicit, [4]), (again, [4])])
def test_the_failed_call_is_followed_through_causes_only(how, calls):
    assert failure.failed_calls(raised(how)) == calls


def numbered(number):
    made = CallError("ModelError", "down")
    made._number = number
    return made


def test_every_failed_call_in_a_group_and_behind_a_cause_is_named_once_in_order():
    inner = ExceptionGroup("inner", [numbered(7), ValueError(), numbered(3)])
    group = ExceptionGroup("all", [numbered(5), inner, numbered(7)])
    group.__cause__ = numbered(9)
    assert failure.failed_calls(group) == [5, 7, 3, 9]


def test_of_many_failed_calls_a_hundred_are_named():
    group = ExceptionGroup("all", [numbered(n) for n in range(1, 500)])
    assert failure.failed_calls(group) == list(range(1, 101))


def test_an_attribute_of_the_programs_own_exception_names_no_call():
    class Own(Exception):
        _number = 3

    assert failure.failed_calls(Own()) == []
