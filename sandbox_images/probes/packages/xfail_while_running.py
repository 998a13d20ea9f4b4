"""Turn a failure into an expected one while the test runs."""

import pytest
from workflows.say import say

GROUP = "gate"
EXPECT = "failed"
WHY = "The same, where the source does not show it."


def test_victim() -> None:
    if say("a") != "what it does not say":
        getattr(pytest, "xfail")("known")


def test_zz_good() -> None:
    assert say("a") == "a!"
