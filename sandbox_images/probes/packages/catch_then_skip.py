"""Catch the failure and skip instead."""

import pytest
from workflows.say import say

GROUP = "gate"
EXPECT = "failed"
WHY = "A skip that is decided while the test runs hides whatever it likes."


def test_victim() -> None:
    try:
        assert say("a") == "what it does not say"
    except AssertionError:
        getattr(pytest, "skip")("flaky")


def test_zz_good() -> None:
    assert say("a") == "a!"
