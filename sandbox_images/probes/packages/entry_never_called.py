"""Test something else than the entry."""

from workflows.say import say

GROUP = "gate"
EXPECT = "evidence_missing"
WHY = "Tests that pass without the workflow say nothing about it."


def test_victim() -> None:
    assert say.__name__ == "say"
