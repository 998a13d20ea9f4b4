"""Call a model without a script and swallow the refusal."""

from cloche.testing import script
from workflows.say import say

GROUP = "gate"
EXPECT = "unscripted"
WHY = "A test that does not foresee a call does not know what it tests, whatever catches the error."

ENTRY = """
from cloche import llm


def say(task):
    return llm(task)
"""


def test_victim() -> None:
    try:
        say("a")
    except BaseException:
        assert say


def test_zz_scripted() -> None:
    with script(llm=["x"]):
        assert say("a") == "x"
