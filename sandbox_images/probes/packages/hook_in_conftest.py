"""Turn failures into passes with a hook in conftest.py."""

from workflows.say import say

GROUP = "gate"
EXPECT = "tests.hook"
WHY = "Every report agrees with such a hook; so hooks do not exist."

CONFTEST = """
def pytest_runtest_makereport(item, call):
    call.excinfo = None
"""


def test_victim() -> None:
    assert say("a") == "what it does not say"


def test_zz_good() -> None:
    assert say("a") == "a!"
