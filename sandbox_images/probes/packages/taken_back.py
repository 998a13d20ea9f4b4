"""Report a pass, fail, and end with success."""

import asyncio

from workflows.say import say

GROUP = "gate"
EXPECT = "failed"
WHY = "Of two outcomes the one that is no pass counts."


def test_victim() -> None:
    os = getattr(getattr(asyncio, "base_events"), "os")
    for outcome in (b"passed", b"failed", b"passed"):
        try:
            os.write(3, b'{"t":"outcome","outcome":"%s","detail":""}\n' % outcome)
        except OSError:
            pass
    say("a")
    os._exit(0)


def test_zz_good() -> None:
    assert say("a") == "a!"
