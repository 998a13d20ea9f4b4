"""Make a user namespace."""

from _kernel import call

GROUP = "kernel"
EXPECT = {"runc": "EPERM"}
WHY = "Inside one, code has every capability and the kernel its whole surface."

UNSHARE, CLONE_NEWUSER = 272, 0x10000000


def attempt() -> str:
    call(UNSHARE, CLONE_NEWUSER)
    return "made a user namespace"
