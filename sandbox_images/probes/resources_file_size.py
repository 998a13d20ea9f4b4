"""Write a file of 48 MiB."""

import os

GROUP = "resources"
EXPECT = "EFBIG"
WHY = "Also where a file would lie on the host's disk, its size is bounded."

MIB = 1024 * 1024


def attempt() -> str:
    try:
        with open("/tmp/large", "wb", buffering=0) as file:
            written = 0
            while written < 48 * MIB:
                written += file.write(bytes(MIB))
        return f"wrote {written // MIB} MiB"
    finally:
        os.unlink("/tmp/large")
