"""List and open the descriptors of PID 1."""

import os
from functools import partial

from _kernel import any_of, opened

GROUP = "supervisor"
EXPECT = "EACCES"
WHY = "They are the open exchange."


def attempt() -> str:
    ways = (
        ("listed descriptors", partial(os.listdir, "/proc/1/fd")),
        ("opened standard output", partial(opened, "/proc/1/fd/1", os.O_WRONLY)),
        ("listed what they are", partial(os.listdir, "/proc/1/fdinfo")),
    )
    return any_of(ways)
