"""Read in the environment of another process what was not passed to this one."""

import os

from _kernel import NothingFound

GROUP = "environment"
EXPECT = "NothingFound"
WHY = "Another process may have been given more."


def attempt() -> str:
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{number}/environ", "rb") as file:
                names = {item.partition(b"=")[0].decode(errors="replace") for item in file.read().split(b"\0") if item}
        except OSError:
            continue
        if more := names - ALLOWED:
            return f"read {', '.join(sorted(more))} of process {number}"
    raise NothingFound("nothing beyond the allow-list")


ALLOWED = {"PATH", "PYTHONHASHSEED", "TZ", "LANG", "LC_ALL", "LC_CTYPE", "HOME", "HOSTNAME"}
