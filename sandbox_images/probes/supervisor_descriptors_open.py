"""Open what PID 1 has open, by the names in /proc."""

import os
from functools import partial

from _kernel import any_of, opened

GROUP = "supervisor"
EXPECT = {"runc": "EACCES", "runsc": "EACCES or ENOENT or ENXIO"}
WHY = "They are the open exchange, and the way there asks nobody else."

NUMBERS = range(1, 24)
"""Standard input is /dev/null."""


def attempt() -> str:
    paths = [f"/proc/1/{place}/{number}" for place in ("fd", "task/1/fd") for number in NUMBERS]
    flags = (os.O_RDONLY | os.O_NONBLOCK, os.O_WRONLY | os.O_NONBLOCK)
    return any_of((f"opened {path}", partial(opened, path, flag)) for path in paths for flag in flags)
