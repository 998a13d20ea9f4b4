"""Open a device of the host."""

import os
import stat
from functools import partial

from _kernel import any_of, opened

GROUP = "files"
EXPECT = "ENOENT"
WHY = "A disk, the kernel's log or /dev/mem are the host itself."

NAMES = (
    *(
        "mem",
        "kmem",
        "port",
        "kmsg",
        "kvm",
        "loop-control",
        "loop0",
        "vhost-vsock",
        "vsock",
        "uinput",
    ),
    *("sda", "vda", "nvme0n1", "dm-0", "mapper/control", "rtc0", "hwrng", "snapshot", "userfaultfd", "btrfs-control"),
)


def control() -> None:
    for name, minor in (("kmsg", 11), ("loop-control", 237)):
        if not os.path.exists(f"/dev/{name}"):
            os.mknod(f"/dev/{name}", stat.S_IFCHR | 0o600, os.makedev(1 if name == "kmsg" else 10, minor))


def attempt() -> str:
    ways = ((f"opened /dev/{name}", partial(opened, f"/dev/{name}", os.O_RDWR)) for name in NAMES)
    return any_of(ways)
