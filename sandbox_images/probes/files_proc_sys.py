"""Change a setting of the kernel in /proc/sys, such as the program that takes core files."""

import os
from functools import partial

from _kernel import any_of, opened

GROUP = "files"
EXPECT = {"runc": "EACCES or EROFS", "runsc": "EACCES or EROFS or ENOENT"}
WHY = "core_pattern starts a program of one's choice as root of the host."

NAMES = ("kernel/core_pattern", "kernel/hostname", "vm/overcommit_memory", "fs/file-max")


def attempt() -> str:
    return f"opened {any_of((name, partial(opened, f'/proc/sys/{name}', os.O_WRONLY)) for name in NAMES)} for writing"
