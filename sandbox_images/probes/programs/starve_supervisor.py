"""Keep 40 processes busy across the deadline."""

import os

GROUP = "lifetime"
EXPECT = "deadline or host deadline"
WHY = "A supervisor that gets no time keeps no deadline; the host, which shares no time with the cell, keeps it then."
DEADLINE_S = 1.0

PAST_S = 4.0


def attempt() -> str:
    end = os.times().elapsed + PAST_S
    for _ in range(40):
        if os.fork() == 0:
            while os.times().elapsed < end:
                pass
            os._exit(0)
    while os.times().elapsed < end:
        pass
    return "still there after the deadline"
