"""Make 20,000 empty files in /tmp."""

import os

GROUP = "resources"
EXPECT = {"runc": "ENOSPC"}
WHY = "A file without bytes takes memory of the kernel all the same. gVisor bounds the bytes of /tmp alone."


def attempt() -> str:
    made: list[str] = []
    os.mkdir("/tmp/many")
    try:
        while len(made) < 20_000:
            path = f"/tmp/many/{len(made)}"
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
            made.append(path)
        return f"made {len(made)} files"
    finally:
        for path in made:
            os.unlink(path)
        os.rmdir("/tmp/many")
