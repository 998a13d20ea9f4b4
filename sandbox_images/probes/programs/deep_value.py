"""Send 100,000 brackets, one in the other."""

import os

GROUP = "exchange"
EXPECT = "frame.too_deep"
WHY = "A parser that recurses ends with its stack."
CONTROL = "taken"


def attempt() -> str:
    data = b'{"t":"result","value":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
    while data:
        data = data[os.write(3, data) :]
    return "sent it"
