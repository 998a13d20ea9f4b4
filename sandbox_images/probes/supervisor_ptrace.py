"""Trace PID 1."""

import ctypes
import os

GROUP = "supervisor"
EXPECT = "EPERM"
WHY = "A traced supervisor is a frozen one."

PTRACE_SEIZE = 0x4206


def attempt() -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(PTRACE_SEIZE, 1, 0, 0) == 0:
        return "traced PID 1"
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number))
