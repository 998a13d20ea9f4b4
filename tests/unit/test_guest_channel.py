"""Messages of a worker: what is believed, and the name of everything else."""

import json

import pytest
from cloche_guest.channel import TOO_MANY, Channel, check_value
from cloche_guest.wire import WireError

CALL = {"t": "call", "c": 1, "scope": "/", "fn": "now", "n": 1, "args": {}, "site": ""}
PART = {"t": "part", "id": 1, "i": 1, "of": 1, "data": "[1]"}


def channel(**options):
    return Channel(**{"message_bytes": 1024 * 1024, "messages": 50, "value_bytes": 8 * 1024 * 1024, **options})


def take(*said, **options):
    """All frames of what a worker said, its end included."""
    listening = channel(**options)
    found = []
    for message in said:
        listening.feed(message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n")
        while (frame := listening.next()) is not None:
            found.append(frame)
    listening.finish()
    return found


def test_calls_parts_and_a_result_are_passed_on_as_they_are():
    said = [
        CALL,
        {
            **CALL,
            "c": 2,
            "n": 2,
            "scope": "/dep[1]/other[12]",
            "label": "x",
            "phase": ["a"],
            "args": {"a": {"$tuple": []}},
        },
        {**PART, "of": 2, "data": '{"a":'},
        {**PART, "i": 2, "of": 2, "data": "1}"},
        {"t": "call", "c": 3, "scope": "/", "fn": "now", "n": 1, "args_part": 1, "site": ""},
        {**PART, "id": 2},
        {"t": "result", "value_part": 2},
    ]
    assert take(*said) == said


def test_a_message_may_come_in_any_pieces():
    line = json.dumps(CALL).encode() + b"\n"
    assert take(*[line[i : i + 1] for i in range(len(line))]) == [CALL]


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ([b"x" * 2_000_000], "frame.oversized"),
        ([b"x" * 1_100_000 + b"\n"], "frame.oversized"),
        ([b"\xff\n"], "frame.not_utf8"),
        ([b'{"t":"call","site":"\\ud800"}\n'], "frame.not_utf8"),
        ([b"nonsense\n"], "frame.not_json"),
        ([b'{"t":"result","t":"result","value":1}\n'], "frame.not_json"),
        ([b'{"t":"result","value":NaN}\n'], "frame.not_json"),
        ([b'{"t":"result","value":1e999}\n'], "value.not_canonical"),
        ([b"[]\n"], "frame.not_object"),
        ([b"[" * 1000 + b"]" * 1000 + b"\n"], "frame.too_deep"),
        ([{"t": "end", "cause": "exit"}], "frame.unknown_type"),
        ([{"t": "test", "case": 0}], "frame.unknown_type"),
        ([{"t": "ready"}], "frame.unknown_type"),
        ([{**CALL, "v": 1}], "frame.unknown_field"),
        ([{**CALL, "fn": ""}], "frame.bad_field"),
        ([{**CALL, "fn": "a\nb"}], "frame.bad_field"),
        ([{**CALL, "fn": "x" * 301}], "frame.bad_field"),
        ([{**CALL, "c": True}], "frame.bad_field"),
        ([{**CALL, "scope": "/../x"}], "frame.bad_field"),
        ([{**CALL, "scope": "/a[0]"}], "frame.bad_field"),
        ([{**CALL, "n": 2}], "frame.bad_field"),
        ([{**CALL, "n": 0}], "frame.bad_field"),
        ([{**CALL, "phase": [1]}], "frame.bad_field"),
        ([{**CALL, "args_part": 1}], "frame.bad_field"),
        ([{**CALL, "args": {"$tuple": []}}], "value.not_canonical"),
        ([{**CALL, "args": {"a": {"$set": [1, 1]}}}], "value.not_canonical"),
        ([{**CALL, "args": [1]}], "value.not_canonical"),
        ([CALL, CALL], "call.repeated"),
        ([{**CALL, "c": 0}], "call.repeated"),
        ([{**CALL, "c": 2}], "call.out_of_order"),
        ([CALL, {**CALL, "c": 3}], "call.out_of_order"),
        ([{"t": "result", "value_part": 1}], "part.unknown"),
        ([PART, {"t": "result", "value_part": 2}], "part.unknown"),
        ([{**PART, "of": 2}, {"t": "result", "value_part": 1}], "part.unknown"),
        ([{**PART, "id": 2}], "part.out_of_order"),
        ([{**PART, "i": 2, "of": 2}], "part.out_of_order"),
        ([{**PART, "of": 3}, {**PART, "i": 3, "of": 3}], "part.out_of_order"),
        ([{**PART, "of": 2}, {**PART, "i": 2, "of": 3}], "part.out_of_order"),
        ([{**PART, "of": 0}], "part.out_of_order"),
        ([PART, {**PART, "id": 2}], "part.out_of_order"),
        ([PART, CALL], "part.out_of_order"),
        ([{**PART, "data": "x" * 600_000}], "part.oversized"),
        ([{**PART, "i": i, "of": 40, "data": "x" * 500_000} for i in range(1, 30)], "part.oversized"),
        ([{**PART, "data": "[1"}, {"t": "result", "value_part": 1}], "value.not_canonical"),
        ([PART, {"t": "result", "value_part": 1, "value": 1}], "frame.bad_field"),
        ([{"t": "result"}], "frame.bad_field"),
        ([{"t": "result", "value": 1, "error": {}}], "frame.bad_field"),
        ([{"t": "result", "error": {"type": 1}}], "frame.bad_field"),
        ([{"t": "result", "error": {"kind": ""}}], "frame.bad_field"),
        ([{"t": "result", "error": {"type": "", "call": 1}}], "frame.bad_field"),
        ([{"t": "result", "value": 1}, {"t": "result", "value": 2}], "frame.out_of_order"),
        ([{"t": "result", "value": 1}, CALL], "frame.out_of_order"),
        ([b'{"t":'], "frame.unfinished"),
        ([{**CALL, "c": i, "n": i} for i in range(1, 60)], TOO_MANY),
    ],
)
def test_everything_else_has_a_name(said, name):
    with pytest.raises(WireError) as caught:
        take(*said)
    assert caught.value.code == name


@pytest.mark.parametrize(
    "text", ['{"a":1,"a":1}', "[NaN]", "1e999", "[" * 500 + "]" * 500, "", '{"$set":[2,1]}', '"\\ud800"']
)
def test_text_that_is_not_the_one_encoding_of_a_value_is_none(text):
    assert not check_value(text, arguments=False)


def test_arguments_are_a_dict_with_text_as_keys():
    assert check_value('{"a":1}', arguments=True)
    assert check_value('{"$dict":[["$a",1]]}', arguments=True)
    assert not check_value('{"$dict":[[1,1]]}', arguments=True)
    assert not check_value("[1]", arguments=True)
