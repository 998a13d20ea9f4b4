"""Start 400 processes."""

import os
import signal

GROUP = "resources"
EXPECT = {"runc": "EAGAIN"}
WHY = "A fork bomb takes the machine."


def attempt() -> str:
    reading, writing = os.pipe()
    children: list[int] = []
    try:
        for _ in range(400):
            child = os.fork()
            if child == 0:
                os.close(writing)
                os.read(reading, 1)
                os._exit(0)
            children.append(child)
        return f"started {len(children)} processes"
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
        for child in children:
            os.waitpid(child, 0)
