"""Read the environment, the map of memory, the program, the root and the stack of PID 1."""

import os
from functools import partial

from _kernel import any_of

GROUP = "supervisor"
EXPECT = "EACCES"
WHY = "Addresses make an attack on it precise."


def attempt() -> str:
    ways = [
        (f"read {name}", partial(_read, f"/proc/1/{name}"))
        for name in ("environ", "maps", "pagemap", "auxv", "syscall")
    ]
    ways += [(f"followed {name}", partial(os.readlink, f"/proc/1/{name}")) for name in ("exe", "cwd", "root", "ns/mnt")]
    return any_of(ways)


def _read(path: str) -> None:
    with open(path, "rb", buffering=0) as file:
        if not file.read(1):
            raise OSError(13, "nothing is shown")
