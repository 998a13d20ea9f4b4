"""End in the middle of a message."""

import os

GROUP = "exchange"
EXPECT = "frame.unfinished"
WHY = "Half a message must be neither guessed nor forgotten."
CONTROL = "taken"


def attempt() -> str:
    os.write(3, b'{"t":"call","c":1')
    os._exit(0)
