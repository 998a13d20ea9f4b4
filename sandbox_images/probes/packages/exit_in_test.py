"""End the process with success before the failing test is reached."""

import asyncio

from workflows.say import say

GROUP = "gate"
EXPECT = "failed"
WHY = "An exit status proves nothing: every expected case must be reported."


def test_aa_exits() -> None:
    assert say("a")
    getattr(getattr(asyncio, "base_events"), "os")._exit(0)


def test_victim() -> None:
    assert say("a") == "what it does not say"


def test_zz_good() -> None:
    assert say("a") == "a!"
