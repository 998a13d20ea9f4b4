"""Make a file in /dev/shm or a message queue."""

import os
from functools import partial

from _kernel import any_of, opened

GROUP = "files"
EXPECT = "ENOENT or EACCES or EROFS"
WHY = "Memory shared there is neither bounded nor the cell's alone."

FOLDERS = ("/dev/shm", "/dev/mqueue", "/run/shm")


def attempt() -> str:
    ways = (
        (f"made a file in {folder}", partial(opened, f"{folder}/planted", os.O_WRONLY | os.O_CREAT))
        for folder in FOLDERS
    )
    return any_of(ways)
