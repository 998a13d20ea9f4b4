"""Offer PID 1 to the kernel's out-of-memory killer, and take oneself out."""

import os
from functools import partial

from _kernel import any_of, opened

GROUP = "supervisor"
EXPECT = "EACCES"
WHY = "Who dies first when memory ends must not be the code's choice."


def attempt() -> str:
    ways = (
        ("PID 1", partial(opened, "/proc/1/oom_score_adj", os.O_WRONLY)),
        ("its own process", partial(_lower)),
    )
    return f"changed the score of {any_of(ways)}"


def _lower() -> None:
    with open("/proc/self/oom_score_adj", "r+") as file:
        own = int(file.read())
        file.seek(0)
        file.write(str(own - 1))
