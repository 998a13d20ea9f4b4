"""Open the devices that make file systems and network interfaces out of programs."""

import os
import stat
from functools import partial

from _kernel import any_of, opened

GROUP = "files"
EXPECT = {"runc": "ENOENT"}
WHY = "What is made with them holds up, and lies to, whoever looks at it. gVisor has its own of both."


def control() -> None:
    if not os.path.exists("/dev/fuse"):
        os.mknod("/dev/fuse", stat.S_IFCHR | 0o600, os.makedev(10, 229))


def attempt() -> str:
    return f"opened {any_of((path, partial(opened, path, os.O_RDWR)) for path in ('/dev/fuse', '/dev/net/tun'))}"
