"""Compare what two processes share in the kernel."""

import os

from _kernel import call

GROUP = "kernel"
EXPECT = "EPERM"
WHY = "The order of kernel addresses helps an exploit."

KCMP, KCMP_VM = 312, 1


def attempt() -> str:
    call(KCMP, os.getpid(), os.getpid(), KCMP_VM, 0, 0)
    return "compared"
