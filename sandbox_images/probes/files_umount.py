"""Take a mount away that covers something."""

import errno

from _kernel import call

GROUP = "files"
EXPECT = "EPERM"
WHY = "Masked paths are mounts, and what they cover is still there."

UMOUNT, MNT_EXPIRE = 166, 4
"""The first call only marks a mount, and the rights are asked for all the same."""


def attempt() -> str:
    call(UMOUNT, b"/cloche/in", MNT_EXPIRE, reached=(errno.EAGAIN, errno.EBUSY))
    return "unmounted /cloche/in, or would have after a second time"
