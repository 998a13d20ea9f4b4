"""Find a network interface besides loopback."""

from pathlib import Path

GROUP = "network"
EXPECT = "LookupError"
WHY = "No interface, no way out, even if a socket could be made."


def attempt() -> str:
    lines = Path("/proc/net/dev").read_text().splitlines()[2:]
    found = sorted({line.partition(":")[0].strip() for line in lines} - {"lo"})
    if not found:
        raise LookupError("only loopback")
    return f"found {', '.join(found)}"
