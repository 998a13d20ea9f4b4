"""Find a secret of the orchestrator's own environment: in variables, command lines and files of the cell."""

import hashlib
import os
import re
from collections.abc import Iterator

from _kernel import NothingFound, parameter

GROUP = "environment"
EXPECT = "NothingFound"
WHY = "What the host's process knows must not come along by any way."


def attempt() -> str:
    wanted = parameter("canary_sha256")
    for place in _places():
        for value in re.findall(rb"[0-9a-f]{32}", _read(place)):
            if hashlib.sha256(value).hexdigest() == wanted:
                return f"found the secret in {place}"
    raise NothingFound("the secret is nowhere")


def _places() -> Iterator[str]:
    for number in filter(str.isdigit, os.listdir("/proc")):
        yield from (f"/proc/{number}/environ", f"/proc/{number}/cmdline")
    for top in ("/etc", "/run", "/var", "/tmp", "/cloche/in", "/root", "/home"):
        for folder, _, names in os.walk(top):
            yield from (os.path.join(folder, name) for name in names)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(1_000_000)
    except OSError:
        return b""
