"""Rename, remove and replace in the exchange, again and again, while the supervisor writes there."""

import os
import time
from contextlib import suppress
from functools import partial

from _kernel import Mixed, any_of

GROUP = "files"
EXPECT = {"runc": "EACCES or EROFS", "runsc": "EACCES or EROFS or EXDEV"}
WHY = "Between a check and a use one success in thousands is enough."

RACE_S = 0.1


def attempt() -> str:
    until, tries = time.monotonic() + RACE_S, 0
    while time.monotonic() < until:
        tries += 1
        ways = (
            ("renamed a segment", partial(os.rename, "/cloche/out/000001.seg", "/cloche/out/000009.seg")),
            ("removed a segment", partial(os.unlink, "/cloche/out/000001.seg")),
            ("replaced a segment", partial(os.rename, "/tmp", "/cloche/out/000001.seg")),
            ("renamed the snapshot", partial(os.rename, "/cloche/in/snapshot", "/cloche/in/other")),
            ("replaced the exchange", partial(os.rename, "/cloche/out", "/cloche/other")),
        )
        with suppress(OSError, Mixed):
            return f"{any_of(ways)} at attempt {tries}"
    return any_of(ways)
