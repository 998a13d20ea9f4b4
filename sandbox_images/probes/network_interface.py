"""Find a network interface besides loopback."""

from pathlib import Path

from _kernel import NothingFound

GROUP = "network"
EXPECT = "NothingFound"
WHY = "No interface, no way out, even if a socket could be made."


def attempt() -> str:
    lines = Path("/proc/net/dev").read_text().splitlines()[2:]
    found = sorted({line.partition(":")[0].strip() for line in lines} - {"lo"})
    if not found:
        raise NothingFound("only loopback")
    return f"found {', '.join(found)}"
