"""Change its own root directory."""

import os

GROUP = "files"
EXPECT = "EPERM"
WHY = "chroot in chroot is the oldest way out."


def attempt() -> str:
    os.chroot("/tmp")
    return "changed its root"
