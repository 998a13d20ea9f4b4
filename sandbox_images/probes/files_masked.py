"""Read what of /proc and /sys is covered: kernel memory, keys, timers, interrupts, locks, firmware, how the machine was started."""

import os

from _kernel import NothingFound

GROUP = "files"
EXPECT = "NothingFound"
WHY = "They tell addresses, keys and neighbours."

PATHS = (
    *(
        "/proc/cmdline",
        "/proc/config.gz",
        "/proc/diskstats",
        "/proc/interrupts",
        "/proc/kcore",
        "/proc/key-users",
        "/proc/keys",
        "/proc/locks",
        "/proc/softirqs",
        "/proc/latency_stats",
        "/proc/timer_list",
        "/proc/sched_debug",
        "/proc/scsi",
        "/proc/acpi",
    ),
    *("/sys/firmware", "/sys/fs/cgroup"),
)

GVISOR = b"/vmlinuz-4.4.0-gvisor "
"""In the command line that gVisor's kernel makes up for itself."""


def attempt() -> str:
    for path in PATHS:
        if _content(path):
            return f"read {path}"
    raise NothingFound("all empty or not there")


def _content(path: str) -> bool:
    try:
        if os.path.isdir(path):
            return bool(os.listdir(path))
        with open(path, "rb", buffering=0) as file:
            content = file.read(4096)
        return bool(content) and GVISOR not in content
    except OSError:
        return False
