"""Patch the runner so that no report says failed."""

import asyncio

from workflows.say import say

GROUP = "gate"
EXPECT = "failed"
WHY = "What judges must not be within reach of what is judged, beyond its own case."


def test_aa_patches() -> None:
    assert say("a")
    reports = getattr(getattr(asyncio, "base_events"), "sys").modules["_pytest.reports"]
    reports.TestReport.failed = property(lambda report: False)
    reports.TestReport.passed = property(lambda report: True)


def test_victim() -> None:
    assert say("a") == "what it does not say"


def test_zz_good() -> None:
    assert say("a") == "a!"
