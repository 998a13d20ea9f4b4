"""Leave an output file below 200 folders, at a path longer than the kernel takes."""

import os

GROUP = "resources"
EXPECT = "left out"
WHY = "Who collects or removes by path trips over a path that cannot be named; Cloche stops at its bound and says so."


def attempt() -> str:
    os.makedirs("/tmp/output", exist_ok=True)
    os.chdir("/tmp/output")
    for _ in range(200):
        os.mkdir("deep" * 10)
        os.chdir("deep" * 10)
    with open("file", "w") as file:
        file.write("x")
    os.chdir("/tmp")
    return "left a file 200 folders down"
