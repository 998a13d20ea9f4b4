"""Reserve space for a file without writing it."""

import os

GROUP = "resources"
EXPECT = {"runc": "EPERM"}
WHY = "Space can be reserved past the end of a file, where its size does not show it."


def attempt() -> str:
    descriptor = os.open("/tmp/reserved", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, 1024 * 1024)
        return "reserved 1 MiB"
    finally:
        os.close(descriptor)
        os.unlink("/tmp/reserved")
