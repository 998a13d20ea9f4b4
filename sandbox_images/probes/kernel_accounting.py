"""Have the kernel write accounts, or swap, to a file."""

import errno
from functools import partial

from _kernel import any_of, call

GROUP = "kernel"
EXPECT = "EPERM"
WHY = "Both make the kernel write where it is told."

ACCT, SWAPON, SWAPOFF = 163, 167, 168


def attempt() -> str:
    ways = (
        ("acct", partial(call, ACCT, b"/nowhere", reached=(errno.ENOENT,))),
        ("swapon", partial(call, SWAPON, b"/nowhere", 0, reached=(errno.ENOENT,))),
        ("swapoff", partial(call, SWAPOFF, b"/nowhere", reached=(errno.ENOENT,))),
    )
    return f"{any_of(ways)} asked for the file only"
