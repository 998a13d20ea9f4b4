"""Open userfaultfd."""

import os

from _kernel import call

GROUP = "kernel"
EXPECT = {"runc": "EPERM", "runsc": "ENOSYS"}
WHY = "It stops the kernel in the middle of a copy; a favourite of exploits."

USERFAULTFD, USER_MODE_ONLY = 323, 1


def attempt() -> str:
    os.close(call(USERFAULTFD, USER_MODE_ONLY))
    return "opened userfaultfd"
