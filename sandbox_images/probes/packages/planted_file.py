"""Leave a file that the failing test needs to pass."""

from pathlib import Path

from workflows.say import say

GROUP = "gate"
EXPECT = "failed"
WHY = "The same by way of the disk."


LEFT = Path("/tmp/.planted")


def test_aa_plants() -> None:
    LEFT.write_text(say("a"))


def test_victim() -> None:
    assert say("a")
    assert LEFT.exists()


def test_zz_good() -> None:
    assert say("a") == "a!"
