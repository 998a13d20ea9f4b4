"""Interrupt PID 1."""

import os
import signal

GROUP = "supervisor"
EXPECT = "EPERM"
WHY = "The one signal that reached a Python supervisor of the same uid."


def attempt() -> str:
    os.kill(1, signal.SIGINT)
    return "sent SIGINT to PID 1"
