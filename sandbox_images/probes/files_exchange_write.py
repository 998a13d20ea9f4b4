"""Write into a segment that the host reads."""

import os
from functools import partial

from _kernel import any_of, opened

GROUP = "files"
EXPECT = "EACCES"
WHY = "A forged frame is the supervisor's word."

NAMES = ("000001.seg", "000002.seg", "bell")
FLAGS = (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC, os.O_WRONLY | os.O_CREAT)


def attempt() -> str:
    ways = ((f"opened {name}", partial(opened, f"/cloche/out/{name}", flags)) for name in NAMES for flags in FLAGS)
    return any_of(ways)
