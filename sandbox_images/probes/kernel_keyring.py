"""Use the kernel key ring."""

import ctypes
import os

GROUP = "kernel"
EXPECT = "EPERM"
WHY = "Keys are shared beyond the container."

KEYCTL_GET_KEYRING_ID = 0
SYS_KEYCTL = 250


def attempt() -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(SYS_KEYCTL, KEYCTL_GET_KEYRING_ID, -3, 1) >= 0:
        return "got a key ring"
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number))
