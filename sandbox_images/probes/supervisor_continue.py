"""Send PID 1 a harmless signal."""

import os
import signal

GROUP = "supervisor"
EXPECT = "EPERM"
WHY = "Where one signal is let through, all are."


def attempt() -> str:
    os.kill(1, signal.SIGCONT)
    return "sent SIGCONT to PID 1"
