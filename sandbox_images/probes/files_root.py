"""Write outside /tmp."""

import os
from functools import partial

from _kernel import any_of, opened

GROUP = "files"
EXPECT = "EROFS or EACCES or ENOENT"
WHY = "A changed root would outlive the check of it."

PLACES = (
    "/etc/planted",
    "/opt/cloche/planted",
    "/usr/lib/planted",
    "/planted",
    "/dev/planted",
    "/run/planted",
    "/var/planted",
    "/sys/planted",
)


def attempt() -> str:
    ways = ((place, partial(opened, place, os.O_WRONLY | os.O_CREAT)) for place in PLACES)
    return f"wrote {any_of(ways)}"
