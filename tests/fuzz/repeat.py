"""One input again, without atheris: `python -m tests.fuzz.repeat TARGET FILE`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tests.fuzz.targets import TARGETS


def main(name: str, path: str) -> None:
    """Says how long it took, or fails as it failed."""
    started = time.process_time()
    TARGETS[name].check(Path(path).read_bytes())
    print(f"{name}: {path} holds, {time.process_time() - started:.2f} s")


if __name__ == "__main__":
    main(*sys.argv[1:])
