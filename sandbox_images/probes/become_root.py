"""Become uid 0 again."""

import os

EXPECT = "PermissionError"
WHY = "The drop of rights must be final."


def attempt() -> str:
    os.setresuid(0, 0, 0)
    return "became uid 0"
