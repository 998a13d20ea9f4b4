"""Read a file of the host by its absolute path."""

from pathlib import Path

from _kernel import parameter

GROUP = "files"
EXPECT = "ENOENT"
WHY = "The host file system is not in the cell."


def attempt() -> str:
    planted = parameter("host_file")
    return f"read {len(Path(planted).read_bytes())} bytes of {planted}"
