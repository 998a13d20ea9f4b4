"""Fork without end, every child forking on."""

import os

GROUP = "resources"
EXPECT = "EAGAIN"
WHY = "A fork bomb takes the process table of the machine."
SETTINGS = {"processes": 24}
NEIGHBOUR = True

DEPTH, EACH, ENOUGH = 5, 3, 200


def bomb(depth: int, told: int) -> None:
    for _ in range(EACH if depth else 0):
        try:
            child = os.fork()
        except BlockingIOError:
            os.write(told, b"-")
            return
        if child == 0:
            os.write(told, b"+")
            bomb(depth - 1, told)
            return


def attempt() -> str:
    told, telling = os.pipe()
    held, holding = os.pipe()
    if os.fork() == 0:
        os.close(holding)
        bomb(DEPTH, telling)
        os.read(held, 1)
        os._exit(0)
    started = 0
    while started < ENOUGH:
        said = os.read(told, 64)
        started += said.count(b"+")
        if b"-" in said:
            raise BlockingIOError(11, f"refused after {started} processes")
    os.close(holding)
    return f"{started} processes"
