"""Kill PID 1."""

import os
import signal

GROUP = "supervisor"
EXPECT = "EPERM"
WHY = "With the supervisor the account of what happened ends."


def attempt() -> str:
    os.kill(1, signal.SIGKILL)
    return "sent SIGKILL to PID 1"
