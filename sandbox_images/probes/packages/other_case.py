"""Replace the failing test by one that passes, in the runner's list."""

from typing import Any

from workflows.say import say

GROUP = "gate"
EXPECT = "failed"
WHY = "A case that reaches another's function decides its outcome."


def test_aa_replaces(request: Any) -> None:
    assert say("a")
    for item in request.session.items:
        if item.name == "test_victim":
            item.obj = lambda: None


def test_victim() -> None:
    assert say("a") == "what it does not say"


def test_zz_good() -> None:
    assert say("a") == "a!"
