"""Open 2,000 files."""

import os

GROUP = "resources"
EXPECT = "EMFILE"
WHY = "The table of open files is one for the machine."


def attempt() -> str:
    opened: list[int] = []
    try:
        while len(opened) < 2000:
            opened.append(os.open("/dev/null", os.O_RDONLY))
        return f"opened {len(opened)} files"
    finally:
        for descriptor in opened:
            os.close(descriptor)
