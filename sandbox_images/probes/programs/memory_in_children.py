"""Take 320 MiB of memory in ten processes, each of them modest."""

import os

GROUP = "resources"
EXPECT = "limit:memory or MemoryError"
WHY = "A bound per process is none: memory counts for the cell as a whole."
SETTINGS = {"memory_bytes": 100_663_296}

MIB = 1024 * 1024


def attempt() -> str:
    told, telling = os.pipe()
    held, holding = os.pipe()
    children = []
    for _ in range(10):
        child = os.fork()
        if child == 0:
            os.close(holding)
            kept = b"x" * (32 * MIB)
            os.write(telling, b"+")
            os.read(held, 1)
            os._exit(len(kept) == 0)
        children.append(child)
    os.close(telling)
    os.close(held)
    for _ in children:
        child, status = os.waitpid(-1, os.WNOHANG) if os.read(told, 1) else os.waitpid(-1, 0)
        if child and os.waitstatus_to_exitcode(status) < 0:
            raise MemoryError("a child was killed")
    os.close(holding)
    return "took 320 MiB"
