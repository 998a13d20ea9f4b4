"""What is said of a call that asks something else than its record: where it differs, both arguments, and the likely cause."""

from __future__ import annotations

from typing import Any

import pytest
from cloche_guest import codec

from engine.run import divergence
from engine.run.calls import CallKey
from engine.run.divergence import Divergence, asked_elsewhere, compare
from engine.run.events import FIRST_HASH, FORMAT, CallStarted, Line, RunCreated, RunStarted
from engine.run.history import History

KEY = CallKey("/", "llm", 1, "a")


def told(recorded: Any, asked: Any) -> Divergence:
    return compare(
        KEY,
        recorded=codec.encode(recorded),
        asked=codec.encode(asked),
        recorded_site="workflow.py:3",
        site="workflow.py:4",
    )


class Thing:
    """Has an address."""


def two(template: str) -> tuple[dict[str, str], dict[str, str]]:
    return {"p": template.format("<T at 0x7f00aa11bb22>")}, {"p": template.format("<T at 0x7f33aa11cc33>")}


LONG = "The log of 2026-11-30 12:00:01 in /tmp/x, pid 7, at 0x7f00aa11bb22. " * 200


@pytest.mark.parametrize(
    ("recorded", "asked", "where", "cause"),
    [
        (*two("{}"), "$.p", divergence.ADDRESS),
        (*two("[{0}, {0}]"), "$.p", divergence.ADDRESS),
        (*two(LONG + "{}" + LONG), "$.p", divergence.ADDRESS),
        ({"p": 0x7F00AA11BB20}, {"p": 0x7F33AA11BB20}, "$.p", divergence.NUMBER),
        ({"p": 0x55D0AA11BB20 >> 4}, {"p": 0x55F0AA11BB20 >> 4}, "$.p", divergence.NUMBER),
        ({"p": f"it is {0x7F00AA11BB20}."}, {"p": f"it is {0x7F33AA11BB20}."}, "$.p", divergence.NUMBER),
        ({"p": [3, 1, 2]}, {"p": [1, 2, 3]}, "$.p", divergence.SET_ORDER),
        ({"p": (3, 1, 2)}, {"p": (1, 2, 3)}, "$.p", divergence.SET_ORDER),
        ({"p": "b, a"}, {"p": "a, b"}, "$.p", divergence.SET_ORDER),
        ({"p": LONG + "b, a, c"}, {"p": LONG + "a, c, b"}, "$.p", divergence.SET_ORDER),
        (
            {"p": "{<A at 0x7f00aa11bb22>, <B at 0x7f00aa11bb33>}"},
            {"p": "{<B at 0x7f11aa11bb44>, <A at 0x7f11aa11bb55>}"},
            "$.p",
            divergence.OBJECTS,
        ),
        ({"p": 1}, {"p": True}, "$.p", divergence.KIND),
        ({"p": 1}, {"p": 1.0}, "$.p", divergence.KIND),
        ({"p": [0, "1"]}, {"p": [0, 1]}, "$.p[1]", divergence.KIND),
        ({"p": "on 2026-11-30 12:00"}, {"p": "on 2026-11-30 12:01"}, "$.p", divergence.WORLD),
        ({"p": "made /tmp/tmpa1b2c3"}, {"p": "made /tmp/tmpd4e5f6"}, "$.p", divergence.WORLD),
        ({"p": "pid 812 ended"}, {"p": "pid 94 ended"}, "$.p", divergence.WORLD),
        ({"p": 0.125}, {"p": 0.5}, "$.p", divergence.WORLD),
        ({"p": "took 0.125 s"}, {"p": "took 0.5 s"}, "$.p", divergence.WORLD),
        ({"p": LONG + "yes"}, {"p": LONG + "no"}, "$.p", divergence.UNKNOWN),
        ({"p": 1796040000123}, {"p": 1796040000456}, "$.p", divergence.UNKNOWN),
        ({"p": {"two words": 1}}, {"p": {"two words": 2}}, "$.p['two words']", divergence.UNKNOWN),
        ({"p": {7: [1]}}, {"p": {7: [2]}}, "$.p[7][0]", divergence.UNKNOWN),
        ({"p": {7: 1}}, {"p": {8: 1}}, "$.p", divergence.UNKNOWN),
        ({"p": None}, {"p": "None"}, "$.p", divergence.KIND),
    ],
)
def test_the_likely_cause_follows_from_what_differs(recorded: Any, asked: Any, where: str, cause: str) -> None:
    found = told(recorded, asked)
    assert (found.where, found.cause) == (where, cause)


def test_the_order_of_a_dict_is_no_difference() -> None:
    recorded = {"p": {1: "a", 2: "b"}, "q": {"x": 1, "y": [{"a": 1, "b": 2}]}, "r": 1}
    asked = {"p": {2: "b", 1: "a"}, "q": {"y": [{"b": 2, "a": 1}], "x": 1}, "r": 2}
    assert told(recorded, asked).where == "$.r"


@pytest.mark.parametrize("length", [0, 100, 1_000, 1_000_000])
def test_both_arguments_are_shown_where_they_differ(length: int) -> None:
    found = told({"p": "x" * length + "left", "q": 1}, {"p": "x" * length + "right", "q": 1})
    assert "left" in found.recorded
    assert "right" in found.asked
    assert max(len(found.recorded), len(found.asked)) < divergence.ARGUMENT_CHARACTERS + 40
    assert all(part in str(found) for part in ("llm() number 1 in / at workflow.py:4", found.recorded, found.asked))


def test_a_large_difference_is_told_from_its_begin() -> None:
    found = told({"p": [f"{i} left" for i in range(600_000)]}, {"p": [f"{i} right" for i in range(300_000)]})
    assert (found.where, found.cause) == ("$.p", divergence.UNKNOWN)


def test_a_call_that_asks_what_another_one_asked_is_another_order_of_calls() -> None:
    def started(scope: str, n: int, digest: str) -> CallStarted:
        return CallStarted(key=CallKey(scope, "llm", n, digest), args={}, site="workflow.py:1")

    history = History()
    history.apply(Line(1, 1.0, 0, RunCreated(format=FORMAT, run="r", spec="s"), FIRST_HASH))
    calls = [started("/", 1, "a"), started("/", 2, "b"), started("/x[1]", 1, "c")]
    for seq, event in enumerate([RunStarted(pid=1, host="h"), *calls], start=2):
        history.apply(Line(seq, 1.0, 1, event, FIRST_HASH))
    for asked, cause in (("b", "number 2 asked for this before"), ("c", "number 1 in /x[1] asked")):
        key = CallKey("/", "llm", 1, asked)
        moved = asked_elsewhere(history, key)
        assert cause in compare(key, recorded={}, asked={}, recorded_site="", site="", moved=moved).cause
    assert asked_elsewhere(history, CallKey("/", "llm", 1, "d")) is None
    assert asked_elsewhere(history, CallKey("/", "agent", 1, "b")) is None
