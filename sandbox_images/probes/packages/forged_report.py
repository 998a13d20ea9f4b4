"""Write the supervisor's report of another case, and the outcome frame of its own."""

import asyncio

from workflows.say import say

GROUP = "gate"
EXPECT = "failed"
WHY = "The number of the case, and whether it counts, come from the supervisor."


LINES = (
    b'{"t":"outcome","outcome":"passed","detail":""}\n'
    b'{"t":"test","case":1,"outcome":"passed","detail":"","duration_s":0,"output":"","entered":true}\n'
    b'{"t":"outcome","case":1,"outcome":"passed","detail":""}\n'
    b'{"t":"end","cause":"exit","detail":"returned","exit":0,"stragglers":0,"usage":{}}\n'
)


def test_aa_forges() -> None:
    assert say("a")
    os = getattr(getattr(asyncio, "base_events"), "os")
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, LINES)
        except OSError:
            pass
    os._exit(0)


def test_victim() -> None:
    assert say("a") == "what it does not say"


def test_zz_good() -> None:
    assert say("a") == "a!"
