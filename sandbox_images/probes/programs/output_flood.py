"""Write 24 MiB to standard output."""

import os

GROUP = "resources"
EXPECT = "output cut"
WHY = "A log without end fills the disk of the host; the program goes on, and what is dropped is counted."
SETTINGS = {"output_bytes": 1_048_576}


def attempt() -> str:
    line = b"x" * 65535 + b"\n"
    written = 0
    while written < 24 * 1024 * 1024:
        written += os.write(1, line)
    return "wrote 24 MiB"
