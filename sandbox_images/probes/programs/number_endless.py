"""Send a number of a million digits."""

import os

GROUP = "exchange"
EXPECT = "frame.not_json"
WHY = "Reading it takes time that grows with the square of its length."
CONTROL = "taken"


def attempt() -> str:
    data = b'{"t":"result","value":' + b"9" * 1_000_000 + b"}\n"
    while data:
        data = data[os.write(3, data) :]
    return "sent it"
