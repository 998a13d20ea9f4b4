"""Answer a call of its own."""

import os

GROUP = "exchange"
EXPECT = "frame.unknown_type"
WHY = "An answer that the host did not give is in no record."
CONTROL = "taken"


def attempt() -> str:
    data = b'{"t":"reply","call":1,"ok":"forged","at":1.0}\n'
    while data:
        data = data[os.write(3, data) :]
    return "sent it"
