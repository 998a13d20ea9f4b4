"""What fuzzing found, as the shortest input that shows it; each fails without its mend."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from cloche_guest import codec, wire
from cloche_guest.channel import Channel

from engine.errors import ExchangeError
from engine.run.events import FIRST_HASH, BadLine, parse
from engine.run.history import History
from engine.run.journal import JournalDamaged, read
from engine.sandbox import readback
from engine.sandbox.incoming import Incoming
from engine.sandbox.parts import ValueParts
from tests.fuzz.conversation import END, FIRST, GENERATION, LIMITS, lines, renumbered
from tests.fuzz.journal import chained
from tests.fuzz.readback import asked, inspected
from tests.fuzz.targets import TARGETS

WIDE = 10**400
TEST = {"t": "test", "case": 0, "outcome": "passed", "detail": "", "duration_s": 0.5, "output": "", "entered": True}
MODEL = b'version = 1\n[[reply]]\ntext = "a"\n'
FOUND = [
    ("script", MODEL + b"usage = { n = " + b"9" * 5000 + b" }\n"),
    ("script", MODEL + b"[x]\ny = " + b"[" * 2000 + b"]" * 2000 + b"\n"),
    ("exchange", lines(renumbered([*FIRST, {**END, "usage": {"cpu_s": WIDE}}]))),
    ("exchange", lines(renumbered([*FIRST, {**END, "exit": WIDE}]))),
    ("exchange", lines(renumbered([*FIRST, {**TEST, "duration_s": WIDE}]))),
    ("metadata", b"[tool.cloche.workflow-dependencies.a]\n[tool.cloche.workflow-dependencies]\nb = 'c'\n"),
    ("readback", b'{"Config": 1, "HostConfig": "x", "Mounts": [1], "Image": []}'),
]


@pytest.mark.parametrize(("name", "data"), FOUND, ids=[f"{i}-{name}" for i, (name, _) in enumerate(FOUND)])
def test_what_was_found_stays_mended(name: str, data: bytes) -> None:
    TARGETS[name].check(data)
    assert name in TARGETS


def take(*said: dict[str, Any]) -> Any:
    incoming, frame = Incoming(LIMITS, generation=GENERATION), None
    for line in lines(renumbered([*FIRST, *said])).splitlines():
        frame = incoming.take(line)
    return frame


@pytest.mark.parametrize(
    "frame",
    [{**TEST, "duration_s": WIDE}, {**TEST, "case": WIDE}, {**END, "exit": -(2**53)}, {**END, "stragglers": 2**53}],
    ids=["duration", "case", "exit", "stragglers"],
)
def test_a_number_that_no_record_holds_is_refused_by_name(frame: dict[str, Any]) -> None:
    with pytest.raises(ExchangeError) as caught:
        take(frame)
    assert caught.value.code == "frame.bad_field"


def test_a_duration_that_is_infinite_is_refused_by_name() -> None:
    data = lines(renumbered([*FIRST, TEST])).replace(b"0.5", b"1e999").splitlines()
    incoming = Incoming(LIMITS, generation=GENERATION)
    for line in data[:-1]:
        incoming.take(line)
    with pytest.raises(ExchangeError, match=r"frame\.bad_field"):
        incoming.take(data[-1])


def test_a_figure_of_usage_that_no_record_holds_is_left_out() -> None:
    assert take({**END, "usage": {"cpu_s": 0.5, "wide": WIDE, "neg": -(2**63)}}).usage == {"cpu_s": 0.5}


LONG = {"$int": hex((2**61 - 1 << 200_000) + 5)}
FIVE = {"$decimal": "5"}


@pytest.mark.parametrize(
    "value",
    [
        {"$set": [FIVE, LONG]},
        {"$dict": [[LONG, 1], [FIVE, 2]]},
        {"$set": [{"$tuple": [{"$frozenset": [FIVE]}]}, {"$tuple": [{"$frozenset": [LONG]}]}]},
        {"$set": [FIVE, {"$fraction": [{"$int": hex((2**61 - 1 << 100_000) + 10)}, 2]}]},
    ],
    ids=["members", "keys", "within", "fraction"],
)
def test_numbers_of_one_hash_that_take_long_to_compare_are_never_compared(value: Any) -> None:
    """Each comparison makes a Decimal of the long one, in one step that no deadline interrupts."""
    with pytest.raises(codec.CodecError, match="same hash"):
        codec.check(value)


def test_a_decimal_may_stand_beside_a_long_number() -> None:
    value = {Decimal(5), 2**8000, Decimal("NaN"), -1, -2}
    assert len(codec.check(codec.encode(value))) == 5


def keyed(levels: int) -> Any:
    """A dict whose key is a package's value that holds a dict whose key … with a long list inside."""
    value: Any = [1] * 2000
    for _ in range(levels):
        value = {"$dict": [[{"$data": ["workflows.x.workflow:X", {"field": value}]}, 1]]}
    return {"x": value}


def test_the_text_of_a_key_is_made_twice_however_deep_it_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for its hash and once for its place among the others; for each hash again, it took time by the cube of the nesting."""
    made, canonical = [], codec.canonical
    monkeypatch.setattr(codec, "canonical", lambda encoded: made.append(1) or canonical(encoded))
    codec.check(keyed(4))
    assert len(made) == 2 * 4


def test_keys_in_keys_are_refused_where_they_are_deep() -> None:
    levels = codec.DEPTH // codec.MEMBER_LEVELS
    with pytest.raises(codec.CodecError, match="nested deeper"):
        codec.check(keyed(levels))
    member: Any = 1
    for _ in range(levels):
        member = frozenset({member})
    assert codec.check(codec.encode(member)) == member
    with pytest.raises(codec.CodecError, match="nested deeper"):
        codec.encode(frozenset({member}))


def test_members_and_keys_that_hold_nothing_cost_one_level() -> None:
    value: Any = ()
    for _ in range(codec.DEPTH - 1):
        value = {1: value}
    assert codec.decode(codec.encode(value)) == value
    deep: Any = frozenset({Decimal("1.5"), 2, "x", None})
    for _ in range(codec.DEPTH - 2):
        deep = [deep]
    assert codec.decode(codec.encode(deep)) == deep


def test_a_value_of_too_many_parts_is_refused_before_it_is_read_on_both_sides() -> None:
    text = '[{"$set":[]}' + ',{"$set":[]}' * 500_000 + "]"
    parts, channel = ValueParts(limit_bytes=len(text)), Channel(message_bytes=2**20, messages=99, value_bytes=len(text))
    pieces = wire.split_text(text)
    for i, data in enumerate(pieces, 1):
        frame = {"t": "part", "id": 1, "i": i, "of": len(pieces), "data": data}
        parts.add(frame)
        channel.feed(wire.dump(frame))
        channel.next()
    channel.feed(wire.dump({"t": "result", "value_part": 1}))
    before = process_time()
    for reader in (lambda: parts.take(1), channel.next):
        with pytest.raises(wire.WireError, match=r"value\.too_costly"):
            reader()
    assert process_time() - before < 2


def test_signs_inside_text_cost_nothing() -> None:
    text = json.dumps(['{"a": [1,2,3]}, "\\' * 700_000])
    wire.check_cost(text)
    assert text.count("[") > wire.CONTAINERS // 2


def event(**fields: Any) -> dict[str, Any]:
    return {"s": 1, "at": 1.0, "g": 0, **fields, "p": FIRST_HASH}


def test_damage_is_told_in_a_line_of_words_however_long_the_damaged_one_is(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    for bad in (event(e="x" * 100_000), event(e="run.created", format=2, run="r", spec="s", **{"y" * 100_000: 1})):
        path.write_bytes(chained([bad])[0] + b"\n")
        with pytest.raises(JournalDamaged) as caught:
            read(path)
        assert len(str(caught.value)) < 1000


def test_a_cap_that_is_no_number_is_no_event() -> None:
    for value in ("5", None, True, [1]):
        with pytest.raises(BadLine):
            parse(json.dumps(event(e="decision", what="raise_cap", value=value)).encode())


def test_replies_that_are_no_list_are_taken_for_none() -> None:
    history = History()
    key = ["/", "now", 1, "d"]
    events = [
        {"e": "run.created", "format": 2, "run": "r", "spec": "s"},
        {"g": 1, "e": "run.started", "pid": 1, "host": "h"},
        {"g": 1, "e": "call.started", "key": key, "args": {}},
        {"g": 1, "e": "call.completed", "of": 3, "result": 1, "facts": {"replies": 5}},
    ]
    for line in chained([{"s": 0, "at": 1.0, "g": 0, **one} for one in events]):
        history.apply(parse(line))
    assert history.replies_used == set()


def test_an_engine_that_shows_another_shape_differs() -> None:
    for shown in ({**inspected(), "Config": []}, {**inspected(), "Mounts": [1]}, {**inspected(), "HostConfig": "x"}):
        assert readback.differences(asked(), shown)
    assert readback.differences(asked(), inspected()) == ()
