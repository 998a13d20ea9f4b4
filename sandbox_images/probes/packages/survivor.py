"""Leave a process behind that kills the runners of later cases and speaks in their place."""

import asyncio
from typing import Any

from workflows.say import say

GROUP = "gate"
EXPECT = "failed"
WHY = "What a case starts must be gone before the next one begins."


LINE = b'{"t":"outcome","outcome":"passed","detail":""}\n'


def attack(os: Any) -> None:
    while True:
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) not in (1, os.getpid()):
                try:
                    os.kill(int(name), 9)
                except OSError:
                    pass
        for descriptor in range(3, 32):
            try:
                os.write(descriptor, LINE)
            except OSError:
                pass


def test_aa_leaves_a_child() -> None:
    assert say("a")
    os = getattr(getattr(asyncio, "base_events"), "os")
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)
    attack(os)


def test_victim() -> None:
    assert say("a") == "what it does not say"


def test_zz_good() -> None:
    assert say("a") == "a!"
