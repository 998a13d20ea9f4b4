"""End the process with success as soon as the package is imported."""

from workflows.say import say

GROUP = "gate"
EXPECT = "crashed"
WHY = "Code of the package runs before any test of it; that nothing failed so far is no outcome."

ENTRY = """
import asyncio
import enum


class Early(enum.Enum):
    MEMBER = 1

    def __init__(self, value):
        getattr(getattr(asyncio, "base_events"), "os")._exit(0)


def say(task):
    return task + "!"
"""


def test_victim() -> None:
    assert say("a") == "what it does not say"


def test_zz_good() -> None:
    assert say("a") == "a!"
