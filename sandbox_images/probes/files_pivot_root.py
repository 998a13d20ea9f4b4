"""Change the root of the mount namespace."""

import errno

from _kernel import call

GROUP = "files"
EXPECT = "EPERM"
WHY = "A new root is a new view of all file systems."

PIVOT_ROOT = 155


def attempt() -> str:
    call(PIVOT_ROOT, b"/nowhere", b"/nowhere", reached=(errno.ENOENT,))
    return "pivot_root asked for the directory only"
