"""Read the environment of a process other than its own."""

import os

from _kernel import NothingFound

GROUP = "environment"
EXPECT = "NothingFound"
WHY = "Another process may have been given more."


def attempt() -> str:
    own = {str(os.getpid()), str(os.getppid()) if os.getppid() != 1 else ""}
    for number in filter(str.isdigit, os.listdir("/proc")):
        if number not in own:
            try:
                with open(f"/proc/{number}/environ", "rb") as file:
                    names = [item.partition(b"=")[0] for item in file.read().split(b"\0") if item]
            except OSError:
                continue
            if names:
                return f"read {len(names)} variables of process {number}"
    raise NothingFound("no other environment can be read")
