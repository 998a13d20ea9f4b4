"""Die of SIGKILL by the program's own hand."""

import os
import signal

GROUP = "lifetime"
EXPECT = "SIGKILL"
WHY = "A SIGKILL is no proof of a memory limit or a deadline either."
CONTROL = "exit 137"


def attempt() -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return "unreachable"
