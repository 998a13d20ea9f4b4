"""Make a file of 256 GiB that holds nothing."""

import os

GROUP = "resources"
EXPECT = "EFBIG"
WHY = "Whoever copies or reads it without looking takes it for 256 GiB."


def attempt() -> str:
    descriptor = os.open("/tmp/sparse", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        os.ftruncate(descriptor, 256 * 1024**3)
        return f"a file of {os.fstat(descriptor).st_size} bytes"
    finally:
        os.close(descriptor)
        os.unlink("/tmp/sparse")
