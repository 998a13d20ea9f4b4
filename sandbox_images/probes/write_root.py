"""Write outside /tmp."""

import os

GROUP = "files"
EXPECT = "EROFS"
WHY = "A changed root would outlive the check of it."

PLACES = (
    "/etc/planted",
    "/opt/cloche/planted",
    "/usr/lib/planted",
    "/planted",
    "/dev/planted",
    "/run/planted",
    "/var/planted",
)


def attempt() -> str:
    refused = []
    for place in PLACES:
        try:
            os.close(os.open(place, os.O_WRONLY | os.O_CREAT))
        except OSError as error:
            refused.append(error)
        else:
            return f"wrote {place}"
    raise refused[0]
