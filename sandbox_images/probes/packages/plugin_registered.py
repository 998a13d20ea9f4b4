"""Register a plug-in from a test that turns the failures of others into passes."""

from typing import Any

from workflows.say import say

GROUP = "gate"
EXPECT = "failed"
WHY = "A runner shared by all tests belongs to the first of them."


class Bend:
    def pytest_runtest_makereport(self, call: Any) -> None:
        call.excinfo = None


def test_aa_registers(pytestconfig: Any) -> None:
    assert say("a")
    pytestconfig.pluginmanager.register(Bend())


def test_victim() -> None:
    assert say("a") == "what it does not say"


def test_zz_good() -> None:
    assert say("a") == "a!"
