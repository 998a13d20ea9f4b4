"""Have the kernel hold 160 MiB in buffers of sockets that nobody reads."""

import os
import socket

GROUP = "resources"
EXPECT = "limit:memory or MemoryError"
WHY = "What the kernel keeps for a cell is memory of the machine like any other."
SETTINGS = {"memory_bytes": 100_663_296}


def fill(most: int) -> int:
    """Bytes that the buffers of 100 pairs took; the pairs stay open."""
    taken = 0
    for _ in range(100):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        descriptor, _kept = ours.detach(), theirs.detach()
        os.set_blocking(descriptor, False)
        try:
            while taken < most:
                taken += os.write(descriptor, bytes(65536))
        except BlockingIOError:
            pass
    return taken


def attempt() -> str:
    told, telling = os.pipe()
    held, holding = os.pipe()
    children = []
    for _ in range(10):
        child = os.fork()
        if child == 0:
            os.close(holding)
            fill(16 * 1024 * 1024)
            os.write(telling, b"+")
            os.read(held, 1)
            os._exit(0)
        children.append(child)
    os.close(telling)
    os.close(held)
    for _ in children:
        child, status = os.waitpid(-1, os.WNOHANG) if os.read(told, 1) else os.waitpid(-1, 0)
        if child and os.waitstatus_to_exitcode(status) < 0:
            raise MemoryError("a child was killed")
    os.close(holding)
    return "160 MiB are in buffers"
