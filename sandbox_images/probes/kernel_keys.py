"""Add a key, or ask for one."""

import errno
from functools import partial

from _kernel import any_of, call

GROUP = "kernel"
EXPECT = {"runc": "EPERM", "runsc": "EACCES"}
WHY = "Keys outlive the container, and count for the uid."

ADD_KEY, REQUEST_KEY, PROCESS = 248, 249, -2


def attempt() -> str:
    ways = (
        ("added a key", partial(call, ADD_KEY, b"user", b"cloche", b"x", 1, PROCESS)),
        ("asked for a key", partial(call, REQUEST_KEY, b"user", b"cloche", None, 0, reached=(errno.ENOKEY,))),
    )
    return any_of(ways)
