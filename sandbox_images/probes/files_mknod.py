"""Make a device node, and open it."""

import os
import stat

from _kernel import opened

GROUP = "files"
EXPECT = {"runc": "EPERM", "runsc": "ENXIO"}
WHY = "With a node of its own a cell needs no device to be given."

KMSG = os.makedev(1, 11)


def attempt() -> str:
    os.mknod("/tmp/node", stat.S_IFCHR | 0o600, KMSG)
    opened("/tmp/node", os.O_WRONLY)
    return "opened a node of /dev/kmsg"
