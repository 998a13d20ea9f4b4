"""Become uid 0 again."""

import os

GROUP = "supervisor"
EXPECT = "EPERM"
WHY = "The drop of rights must be final."


def attempt() -> str:
    os.setresuid(0, 0, 0)
    return "became uid 0"
