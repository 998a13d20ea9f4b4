"""Show a directory at another place."""

from _kernel import call

GROUP = "files"
EXPECT = "EPERM"
WHY = "What is hidden at one place would be open at another."

MOUNT, UMOUNT, MS_BIND = 165, 166, 4096


def attempt() -> str:
    call(MOUNT, b"/proc", b"/tmp", None, MS_BIND, None)
    call(UMOUNT, b"/tmp", 0)
    return "bound /proc to /tmp"
