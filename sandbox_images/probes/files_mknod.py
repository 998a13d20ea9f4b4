"""Make a device node."""

import os
import stat

GROUP = "files"
EXPECT = "EPERM"
WHY = "With a node of its own a cell needs no device to be given."


def attempt() -> str:
    os.mknod("/tmp/node", stat.S_IFCHR | 0o600, os.makedev(1, 1))
    os.unlink("/tmp/node")
    return "made a node of /dev/mem"
