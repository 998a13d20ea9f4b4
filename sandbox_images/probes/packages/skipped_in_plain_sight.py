"""Skip the tests that fail, in plain sight."""

import pytest
from workflows.say import say

GROUP = "gate"
EXPECT = "tests.skip_share"
WHY = "A few visible skips are honest, most of the tests are not."


@pytest.mark.skip(reason="later")
def test_victim() -> None:
    assert say("a") == "what it does not say"


@pytest.mark.skip(reason="later")
def test_victim_too() -> None:
    assert say("b") == "what it does not say"


def test_zz_good() -> None:
    assert say("a") == "a!"
