"""Send an escape that is half a character."""

import os

GROUP = "exchange"
EXPECT = "frame.not_utf8"
WHY = "It parses, and fails later, where nobody expects it."
CONTROL = "taken"


def attempt() -> str:
    data = b'{"t":"result","value":"\\ud800"}\n'
    while data:
        data = data[os.write(3, data) :]
    return "sent it"
