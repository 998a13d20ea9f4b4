"""Make a user namespace."""

import ctypes
import os

GROUP = "kernel"
EXPECT = "EPERM"
WHY = "Inside one, code has every capability and the kernel its whole surface."

CLONE_NEWUSER = 0x10000000


def attempt() -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWUSER) == 0:
        return "made a user namespace"
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number))
