"""Read a file of the host by its absolute path."""

import json
from pathlib import Path

GROUP = "files"
EXPECT = "ENOENT"
WHY = "The host file system is not in the cell."


def attempt() -> str:
    planted = json.loads((Path(__file__).parent / "parameters.json").read_text())["host_file"]
    return f"read {len(Path(planted).read_bytes())} bytes of {planted}"
