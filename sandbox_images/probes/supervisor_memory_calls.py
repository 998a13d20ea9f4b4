"""Read and write the memory of PID 1 by system calls."""

import ctypes
import errno
import struct
from functools import partial

from _kernel import any_of, call

GROUP = "supervisor"
EXPECT = {"runc": "EPERM", "runsc": "ENOSYS"}
WHY = "They need no file in /proc."

READV, WRITEV = 310, 311


def attempt() -> str:
    buffer = ctypes.create_string_buffer(8)
    local = struct.pack("QQ", ctypes.addressof(buffer), 8)
    nowhere = struct.pack("QQ", 0, 8)
    ways = (
        ("process_vm_readv", partial(call, READV, 1, local, 1, nowhere, 1, 0, reached=(errno.EFAULT,))),
        ("process_vm_writev", partial(call, WRITEV, 1, local, 1, nowhere, 1, 0, reached=(errno.EFAULT,))),
    )
    return f"{any_of(ways)} was let at PID 1"
