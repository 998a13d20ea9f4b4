"""Have the runner end with success before the failing test is reached."""

import pytest
from workflows.say import say

GROUP = "gate"
EXPECT = "failed"
WHY = "A runner that stops early is no runner that passed."


def test_aa_ends_the_session() -> None:
    assert say("a")
    getattr(pytest, "exit")("done", 0)


def test_victim() -> None:
    assert say("a") == "what it does not say"


def test_zz_good() -> None:
    assert say("a") == "a!"
