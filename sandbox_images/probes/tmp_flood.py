"""Fill /tmp with 100 MiB."""

import os

GROUP = "resources"
EXPECT = "ENOSPC"
WHY = "What is writable is bounded."

MIB = 1024 * 1024


def attempt() -> str:
    names = []
    try:
        for i in range(10):
            names.append(f"/tmp/flood{i}")
            with open(names[-1], "wb", buffering=0) as file:
                for _ in range(10):
                    if file.write(bytes(MIB)) != MIB:
                        raise OSError(28, "No space left on device")
        return "wrote 100 MiB"
    finally:
        for name in names:
            os.unlink(name)
