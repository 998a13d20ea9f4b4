"""Start a process in a user namespace."""

import os
import signal

from _kernel import call

GROUP = "kernel"
EXPECT = {"runc": "EPERM"}
WHY = "clone is allowed for processes and threads, and takes the same flags as unshare."

CLONE, CLONE_NEWUSER = 56, 0x10000000


def attempt() -> str:
    child = call(CLONE, CLONE_NEWUSER | signal.SIGCHLD, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return "started a process in a user namespace"
