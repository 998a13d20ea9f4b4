"""Define a harmless test under the name of the failing one."""

from workflows.say import say

GROUP = "gate"
EXPECT = "tests.collect"
WHY = "The runner sees the second, a reader the first."


def test_victim() -> None:
    assert say("a") == "what it does not say"


def test_victim() -> None:  # type: ignore[no-redef]
    assert say("a") == "a!"


def test_zz_good() -> None:
    assert say("a") == "a!"
