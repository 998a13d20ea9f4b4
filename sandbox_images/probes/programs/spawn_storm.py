"""Fork faster than processes are killed, across the deadline."""

import os

GROUP = "lifetime"
EXPECT = "deadline or host deadline"
WHY = "Who kills process by process never catches a family whose children are born faster."
SETTINGS = {"processes": 64}
DEADLINE_S = 1.0

PAST_S = 4.0


def storm(end: float) -> None:
    while os.times().elapsed < end:
        try:
            if os.fork():
                os._exit(0)
        except BlockingIOError:
            pass


def attempt() -> str:
    end = os.times().elapsed + PAST_S
    for _ in range(16):
        try:
            if os.fork() == 0:
                storm(end)
                os._exit(0)
        except BlockingIOError:
            break
    while os.times().elapsed < end:
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            pass
    return "the family outlived the deadline"
