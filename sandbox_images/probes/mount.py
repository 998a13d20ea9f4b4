"""Mount a file system."""

import ctypes
import os

GROUP = "kernel"
EXPECT = "EPERM"
WHY = "Mounts undo every read-only rule."


def attempt() -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0:
        libc.umount(b"/tmp")
        return "mounted a tmpfs"
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number))
