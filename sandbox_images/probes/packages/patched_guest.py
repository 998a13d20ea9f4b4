"""Patch the guest's judge, and the session's count of failures."""

import asyncio
from typing import Any

from workflows.say import say

GROUP = "gate"
EXPECT = "failed"
WHY = "The same for Cloche's own code in the process of a case."


def test_aa_patches(request: Any) -> None:
    assert say("a")
    modules = getattr(getattr(asyncio, "base_events"), "sys").modules
    if "cloche_guest.cases" in modules:
        modules["cloche_guest.cases"].judge = lambda reports, **_: ("passed", "")
        modules["cloche_guest.gate"].decide = lambda *_, **__: ("passed", "")
    type(request.session).testsfailed = property(lambda session: 0, lambda session, value: None)


def test_victim() -> None:
    assert say("a") == "what it does not say"


def test_zz_good() -> None:
    assert say("a") == "a!"
