"""Open the exchange that the supervisor speaks on."""

import os
from functools import partial

from _kernel import any_of, opened

GROUP = "files"
EXPECT = "EACCES"
WHY = "Who reads the exchange sees the nonce; who writes it speaks for the supervisor."

PLACES = ("/cloche/in/000001.seg", "/cloche/out", "/cloche/out/000001.seg")


def attempt() -> str:
    return f"opened {any_of((place, partial(opened, place, os.O_RDONLY)) for place in PLACES)}"
