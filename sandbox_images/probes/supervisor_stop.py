"""Stop PID 1."""

import os
import signal

GROUP = "supervisor"
EXPECT = "EPERM"
WHY = "A stopped supervisor keeps no deadline."


def attempt() -> str:
    os.kill(1, signal.SIGSTOP)
    return "sent SIGSTOP to PID 1"
