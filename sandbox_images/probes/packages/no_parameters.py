"""Give the failing test an empty list of parameters."""

import pytest
from workflows.say import say

GROUP = "gate"
EXPECT = "tests.parametrize"
WHY = "What has no case cannot fail."


@pytest.mark.parametrize("word", [])
def test_victim(word: str) -> None:
    assert say(word) == "what it does not say"


def test_zz_good() -> None:
    assert say("a") == "a!"
