"""Leave output files of 8 MiB together."""

import os

GROUP = "resources"
EXPECT = "limit:output_files"
WHY = "What is collected lies on the disk of the host."
SETTINGS = {"output_files_bytes": 1_048_576}


def attempt() -> str:
    os.makedirs("/tmp/output", exist_ok=True)
    for number in range(8):
        with open(f"/tmp/output/large{number}", "wb") as file:
            file.write(bytes(1024 * 1024))
    return "left 8 MiB"
