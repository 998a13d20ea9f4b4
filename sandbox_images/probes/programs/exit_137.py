"""Exit with the code of a kill."""

import os

GROUP = "lifetime"
EXPECT = "exit 137"
WHY = "A program chooses its exit code; who reads a kill or a memory limit into 137 lets it choose the cause as well."
CONTROL = "exit 137"


def attempt() -> str:
    os._exit(137)
