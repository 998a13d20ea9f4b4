"""Open userfaultfd."""

import ctypes
import os

GROUP = "kernel"
EXPECT = "EPERM"
WHY = "A favourite of kernel exploits."

SYS_USERFAULTFD = 323


def attempt() -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.syscall(SYS_USERFAULTFD, 0)
    if descriptor >= 0:
        os.close(descriptor)
        return "opened userfaultfd"
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number))
