"""Make files and links where the host reads and writes."""

import os
from functools import partial

from _kernel import any_of, opened

GROUP = "files"
EXPECT = "EACCES or EROFS"
WHY = "A link would lead the host's own hand elsewhere."


def attempt() -> str:
    ways = []
    for folder in ("/cloche/out", "/cloche/in", "/cloche"):
        ways += [
            (f"made a link in {folder}", partial(os.symlink, "/etc/hostname", f"{folder}/000003.seg")),
            (f"made a file in {folder}", partial(opened, f"{folder}/000004.seg", os.O_WRONLY | os.O_CREAT)),
            (f"made a directory in {folder}", partial(os.mkdir, f"{folder}/000005.seg")),
        ]
    return any_of(ways)
