"""List the descriptors of PID 1."""

import os
from functools import partial

from _kernel import any_of

GROUP = "supervisor"
EXPECT = {"runc": "EACCES"}
WHY = "They tell where the exchange is open."


def attempt() -> str:
    ways = ((f"listed {name}", partial(os.listdir, f"/proc/1/{name}")) for name in ("fd", "fdinfo"))
    return any_of(ways)
