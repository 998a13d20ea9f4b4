"""Change something in /sys."""

import os
from functools import partial

from _kernel import any_of, opened

GROUP = "files"
EXPECT = "EACCES or EROFS or ENOENT"
WHY = "Devices, power and the kernel's memory are commanded there."

PATHS = (
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/uevent_helper",
    "/sys/power/state",
    "/sys/kernel/profiling",
    "/sys/module/printk/parameters/time",
    "/sys/devices/system/cpu/cpu0/online",
    "/sys/class/net/lo/mtu",
)


def attempt() -> str:
    ways = ((path, partial(opened, path, os.O_WRONLY)) for path in PATHS)
    return f"opened {any_of(ways)} for writing"
