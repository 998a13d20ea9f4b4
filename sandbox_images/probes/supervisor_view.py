"""Read the environment, the map of memory, the program, the root and the stack of PID 1."""

import os
from collections.abc import Callable
from functools import partial

from _kernel import any_of

GROUP = "supervisor"
EXPECT = {"runc": "EACCES"}
WHY = "Addresses make an attack on it precise."

Ways = list[tuple[str, Callable[[], object]]]


def attempt() -> str:
    ways = [
        (f"read {name}", partial(_read, f"/proc/1/{name}"))
        for name in ("environ", "maps", "pagemap", "auxv", "syscall")
    ]
    followed: Ways = [
        (f"followed {name}", partial(os.readlink, f"/proc/1/{name}")) for name in ("exe", "cwd", "root", "ns/mnt")
    ]
    return any_of((*ways, *followed))


def _read(path: str) -> None:
    with open(path, "rb", buffering=0) as file:
        if not file.read(1):
            raise OSError(13, "nothing is shown")
