"""Call the entry and pass whatever it does."""

from workflows.say import say

GROUP = "gate"
EXPECT = "evidence_missing"
WHY = "A call is no test; with the entry replaced by one that raises, something must fail."


def test_victim() -> None:
    try:
        say("a")
    except Exception:
        assert say
