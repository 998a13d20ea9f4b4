"""Ask the kernel what it shares with PID 1."""

import os

from _kernel import call

GROUP = "supervisor"
EXPECT = "EPERM"
WHY = "Answers tell kernel addresses by their order."

KCMP, KCMP_VM = 312, 1


def attempt() -> str:
    call(KCMP, 1, os.getpid(), KCMP_VM, 0, 0)
    return "compared itself with PID 1"
