"""Write to a control group: another one's members, or the program that starts when one is empty."""

import os
from contextlib import suppress
from functools import partial
from pathlib import Path

from _kernel import NothingFound, any_of, call, opened

GROUP = "files"
EXPECT = "NothingFound or EACCES or EROFS"
WHY = "release_agent runs as root of the host."

MOUNT, MS_REMOUNT, MS_BIND = 165, 32, 4096
NAMES = ("release_agent", "cgroup.procs", "tasks", "notify_on_release")


def control() -> None:
    """An engine gives these mounts read-only."""
    for point in _mounted():
        with suppress(OSError):
            call(MOUNT, None, point.encode(), None, MS_REMOUNT | MS_BIND, None)


def attempt() -> str:
    ways = [
        (f"{point}/{name}", partial(opened, f"{point}/{name}", os.O_WRONLY)) for point in _mounted() for name in NAMES
    ]
    if not ways:
        raise NothingFound("no control group is mounted")
    return f"opened {any_of(ways)} for writing"


def _mounted() -> list[str]:
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        if after.startswith("cgroup") and os.path.isdir(point := before.split(" ")[4]):
            found.append(point)
    return found
