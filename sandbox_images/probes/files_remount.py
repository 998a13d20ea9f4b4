"""Make the root file system writable."""

from _kernel import call

GROUP = "files"
EXPECT = "EPERM"
WHY = "Read-only is a flag of a mount, and a mount can be changed."

MOUNT, MS_REMOUNT, MS_BIND = 165, 32, 4096


def attempt() -> str:
    call(MOUNT, None, b"/", None, MS_REMOUNT | MS_BIND, None)
    return "remounted /"
