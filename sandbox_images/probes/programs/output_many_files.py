"""Leave 2,000 output files."""

import os

GROUP = "resources"
EXPECT = "limit:output_files"
WHY = "Files are collected onto the disk of the host, where each takes an inode and a block."
SETTINGS = {"output_files": 100}


def attempt() -> str:
    os.makedirs("/tmp/output", exist_ok=True)
    for number in range(2000):
        os.close(os.open(f"/tmp/output/{number}", os.O_CREAT | os.O_WRONLY, 0o600))
    return "left 2,000 files"
