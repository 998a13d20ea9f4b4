"""Read the memory of a process by a system call."""

import ctypes
import os
import struct

from _kernel import call

GROUP = "kernel"
EXPECT = {"runc": "EPERM", "runsc": "ENOSYS"}
WHY = "What is allowed for its own is one check away from others."

READV = 310


def attempt() -> str:
    source, target = ctypes.create_string_buffer(b"secret"), ctypes.create_string_buffer(6)
    local, remote = (struct.pack("QQ", ctypes.addressof(one), 6) for one in (target, source))
    call(READV, os.getpid(), local, 1, remote, 1, 0)
    return f"read {target.raw!r}"
