"""Set up an io_uring."""

import os

from _kernel import call

GROUP = "kernel"
EXPECT = {"runc": "EPERM"}
WHY = "It does what the filter forbids, on the kernel's own threads."

IO_URING_SETUP = 425


def attempt() -> str:
    os.close(call(IO_URING_SETUP, 1, bytes(120)))
    return "set up a ring"
