"""Open the memory of PID 1."""

import os
from functools import partial

from _kernel import any_of, opened

GROUP = "supervisor"
EXPECT = "EACCES"
WHY = "The supervisor holds the nonce and the exchange."

PATHS = ("/proc/1/mem", "/proc/1/task/1/mem")


def attempt() -> str:
    return f"opened {any_of((path, partial(opened, path, os.O_RDWR)) for path in PATHS)}"
