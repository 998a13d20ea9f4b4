"""End the test run with success from within the entry, once it sees a test runner."""

from workflows.say import say

GROUP = "gate"
EXPECT = "crashed"
WHY = "An entry can see where it runs; a run that ends early proves nothing all the same."

ENTRY = """
import asyncio


def say(task):
    base = getattr(asyncio, "base_events")
    if "pytest" in getattr(base, "sys").modules:
        getattr(base, "os")._exit(0)
    return "wrong"
"""


def test_victim() -> None:
    assert say("a") == "what it does not say"
