"""Change the source that is being run."""

import os
from pathlib import Path

GROUP = "files"
EXPECT = "EROFS"
WHY = "What ran must be what was pinned."


def attempt() -> str:
    folder = Path(__file__).parent
    try:
        os.close(os.open(folder / "bait.txt", os.O_WRONLY | os.O_APPEND))
        return "opened a source file for writing"
    except OSError:
        os.close(os.open(folder / "planted.py", os.O_WRONLY | os.O_CREAT))
        return "made a source file"
