"""Read what of /proc and /sys is covered: kernel memory, keys, timers, firmware."""

import os

from _kernel import NothingFound

GROUP = "files"
EXPECT = "NothingFound"
WHY = "They tell addresses, keys and neighbours."

PATHS = (
    *(
        "/proc/kcore",
        "/proc/keys",
        "/proc/latency_stats",
        "/proc/timer_list",
        "/proc/sched_debug",
        "/proc/scsi",
        "/proc/acpi",
    ),
    *("/sys/firmware", "/sys/fs/cgroup"),
)


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
            return bool(file.read(1))
    except OSError:
        return False
