"""The golden message files: this side writes and reads them byte for byte, and refuses the bad ones by name."""

import base64
import json
from pathlib import Path

import pytest
from cloche_guest import wire

GOLDEN = Path(__file__).parent.parent / "fixtures" / "wire" / "v1"
GENERATION = 3


@pytest.mark.parametrize(
    ("name", "table"),
    [("host_to_cell", wire.HOST_FRAMES), ("cell_to_host", wire.CELL_FRAMES)],
    ids=lambda v: str(v)[:12],
)
def test_golden_frames_are_read_and_written_byte_for_byte(name, table):
    lines = (GOLDEN / f"{name}.jsonl").read_bytes().splitlines(keepends=True)
    for expected, line in enumerate(lines, 1):
        frame = wire.parse(line[:-1])
        wire.check_fields(frame, table)
        wire.check_order(frame, generation=GENERATION, expected=expected)
        assert wire.dump(frame) == line


@pytest.mark.parametrize(
    ("name", "table"),
    [("host_to_cell", wire.HOST_FRAMES), ("cell_to_host", wire.CELL_FRAMES)],
    ids=lambda v: str(v)[:12],
)
def test_golden_files_hold_every_type_and_every_field(name, table):
    frames = [json.loads(line) for line in (GOLDEN / f"{name}.jsonl").read_bytes().splitlines()]
    for kind, fields in table.items():
        of_kind = [frame for frame in frames if frame["t"] == kind]
        assert of_kind, kind
        assert {key for frame in of_kind for key in frame} == {"v", "g", "q", "t", *fields}, kind


def receive(line):
    frame = wire.parse(line)
    wire.check_fields(frame, wire.CELL_FRAMES)
    wire.check_order(frame, generation=GENERATION, expected=1)


REFUSED = [json.loads(line) for line in (GOLDEN / "refused.jsonl").read_bytes().splitlines()]


@pytest.mark.parametrize("case", REFUSED, ids=[f"{i}-{case['code']}" for i, case in enumerate(REFUSED)])
def test_refused_lines_are_refused_by_name(case):
    with pytest.raises(wire.WireError) as caught:
        receive(base64.b64decode(case["line_b64"]))
    assert caught.value.code == case["code"]


def test_a_line_of_a_mebibyte_is_oversized_both_ways():
    with pytest.raises(wire.WireError, match=r"frame\.oversized"):
        wire.parse(b'{"t":"' + b"x" * wire.FRAME_BYTES + b'"}')
    with pytest.raises(wire.WireError, match=r"frame\.oversized"):
        wire.dump({"t": "x" * wire.FRAME_BYTES})


def test_what_cannot_be_written_again_is_refused_when_it_is_written():
    assert wire.parse(b'{"value":1e999}') == {"value": float("inf")}
    with pytest.raises(wire.WireError, match=r"frame\.not_json"):
        wire.dump({"value": float("inf")})


def test_text_cut_in_parts_fits_into_frames_whatever_it_holds():
    for character in ('"', "\\", "日", "😀"):
        for part in wire.split_text(character * 300_000):
            assert len(part.encode()) <= wire.PART_BYTES
            wire.dump({"v": 1, "g": 1, "q": 1, "t": "part", "id": 1, "i": 1, "of": 99, "data": part})


@pytest.mark.parametrize(
    ("text", "weight"),
    [
        ("[[],[]]", 7),
        ('"' + "prose, with {signs} [of it], " * 1000 + '"', 29_002),
        ('"' + '\\"[,' * 5000 + '"', 20_002),
        ("[" + ",".join(["[]"] * 5000) + "]", 60 * 5001 + 12 * 4999),
        ("[" + ",".join(["1"] * 5000) + "]", 60 + 12 * 4999),
        ("[" + ",".join(["123456789012345"] * 500) + "]", 500 * 16 + 1),
    ],
    ids=["short", "prose", "quoted", "containers", "items", "long items"],
)
def test_text_weighs_its_bytes_or_what_its_parts_take_when_it_is_parsed(text, weight):
    assert wire.weight(text, len(text)) == wire.line_weight(text.encode()) == weight
