"""Register the plug-in in a fixture that every test gets."""

from workflows.say import say

GROUP = "gate"
EXPECT = "error"
WHY = "It is the hook in conftest.py again, where the rules do not see it, and in the process of every case."

CONFTEST = """
import pytest


@pytest.fixture(autouse=True)
def bend(pytestconfig):
    class Bend:
        def pytest_runtest_makereport(self, call):
            call.excinfo = None

    pytestconfig.pluginmanager.register(Bend())
"""


def test_victim() -> None:
    assert say("a") == "what it does not say"


def test_zz_good() -> None:
    assert say("a") == "a!"
