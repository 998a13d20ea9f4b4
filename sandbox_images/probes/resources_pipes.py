"""Have the kernel make 100 pipes as large as they may be."""

import fcntl
import os

GROUP = "resources"
EXPECT = {"runc": "EPERM"}
WHY = "Buffers of pipes are memory that no process has."

LARGE = 1024 * 1024


def attempt() -> str:
    opened: list[int] = []
    try:
        for _ in range(100):
            opened += os.pipe()
            fcntl.fcntl(opened[-1], fcntl.F_SETPIPE_SZ, LARGE)
        return "made 100 pipes of 1 MiB"
    finally:
        for descriptor in opened:
            os.close(descriptor)
