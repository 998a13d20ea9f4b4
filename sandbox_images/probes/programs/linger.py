"""Give the result, then stay."""

import os
import signal
import time

GROUP = "lifetime"
EXPECT = "stragglers killed"
WHY = "After its result a program has nothing left to do; what it does then would be in nobody's record."
CONTROL = "mark"
MARK = "/cloche/out/linger.mark"


def stay() -> None:
    time.sleep(2.0)
    os.close(os.open(MARK, os.O_CREAT | os.O_WRONLY, 0o600))
    time.sleep(30)


def attempt() -> str:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    setattr(os, "_exit", lambda _code: stay())  # noqa: B010 - what a worker ends with
    return "stays after its result"
