"""Leave in a module what the failing test needs to pass."""

from workflows.say import say

GROUP = "gate"
EXPECT = "failed"
WHY = "Tests that pass only after one another do not say what the package does alone."


LEFT: list[str] = []


def test_aa_leaves() -> None:
    LEFT.append(say("a"))


def test_victim() -> None:
    assert say("a")
    assert LEFT


def test_zz_good() -> None:
    assert say("a") == "a!"
