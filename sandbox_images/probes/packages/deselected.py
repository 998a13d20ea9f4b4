"""Hide the failing test from the runner while its module is imported."""

import enum

from workflows.say import say

GROUP = "gate"
EXPECT = "not_collected"
WHY = "The runner's own count agrees with whatever was hidden from it; the host's list does not."


def test_victim() -> None:
    assert say("a") == "what it does not say"


class Hiding(enum.Enum):
    MEMBER = 1

    def __init__(self, value: int) -> None:
        setattr(test_victim, "__test__", False)


def test_zz_good() -> None:
    assert say("a") == "a!"
