"""Ask for the handle of a file."""

import errno

from _kernel import call

GROUP = "kernel"
EXPECT = {"runc": "EPERM", "runsc": "ENOTSUP"}
WHY = "The first half of opening by handle; needs no right."

NAME_TO_HANDLE_AT, AT_FDCWD = 303, -100


def attempt() -> str:
    call(NAME_TO_HANDLE_AT, AT_FDCWD, b"/tmp", bytes(8), bytes(4), 0, reached=(errno.EOVERFLOW,))
    return "a handle would be given"
