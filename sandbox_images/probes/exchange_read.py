"""Open the exchange that the supervisor speaks on."""

import os

GROUP = "files"
EXPECT = "EACCES"
WHY = "Who reads the exchange sees the nonce; who writes it speaks for the supervisor."

PLACES = ("/cloche/in/000001.seg", "/cloche/out", "/cloche/out/000001.seg")


def attempt() -> str:
    refused = []
    for place in PLACES:
        try:
            os.close(os.open(place, os.O_RDONLY))
        except OSError as error:
            refused.append(error)
        else:
            return f"opened {place}"
    raise refused[0]
