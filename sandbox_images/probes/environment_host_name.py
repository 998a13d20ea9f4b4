"""Learn the host's name."""

import os
from pathlib import Path

from _kernel import NothingFound, parameter

GROUP = "environment"
EXPECT = "NothingFound"
WHY = "It tells whose machine this is."


def attempt() -> str:
    name = parameter("host_name")
    if os.uname().nodename == name:
        return "uname gives the host's name"
    for path in ("/etc/hostname", "/etc/hosts", "/proc/sys/kernel/hostname", "/etc/resolv.conf"):
        if os.path.exists(path) and name in Path(path).read_text(errors="replace").split():
            return f"{path} holds the host's name"
    raise NothingFound("another name")
