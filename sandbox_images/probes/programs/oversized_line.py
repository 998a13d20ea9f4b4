"""Send one line of 4 MiB."""

import os

GROUP = "exchange"
EXPECT = "frame.oversized"
WHY = "Who reads until the newline holds in memory whatever comes before it."
CONTROL = "taken"


def attempt() -> str:
    data = b'{"t":"result","value":"' + b"x" * (4 << 20) + b'"}\n'
    while data:
        data = data[os.write(3, data) :]
    return "sent it"
