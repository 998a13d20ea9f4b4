"""Keep every core busy, and with more processes than there are cores."""

import os

GROUP = "resources"
EXPECT = "throttled"
WHY = "A cell gets its share of the processors and leaves the others theirs."
SETTINGS = {"cpus": 0.05}
NEIGHBOUR = True

WORKERS, SECONDS = 4, 1.0


def attempt() -> str:
    end = os.times().elapsed + SECONDS
    for _ in range(WORKERS):
        if os.fork() == 0:
            while os.times().elapsed < end:
                pass
            os._exit(0)
    for _ in range(WORKERS):
        os.wait()
    return f"kept {WORKERS} processes busy"
