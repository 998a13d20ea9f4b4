"""Open what else in /proc commands the machine: sysrq-trigger, interrupts, latency, memory types."""

import os
from functools import partial

from _kernel import any_of, opened

GROUP = "files"
EXPECT = {"runc": "EACCES or ENOENT or EROFS"}
WHY = "One letter in sysrq-trigger restarts the machine."

NAMES = ("sysrq-trigger", "irq/default_smp_affinity", "mtrr", "fs/nfsd/threads", "acpi/wakeup", "timer_stats")


def attempt() -> str:
    return f"opened {any_of((name, partial(opened, f'/proc/{name}', os.O_WRONLY)) for name in NAMES)} for writing"
