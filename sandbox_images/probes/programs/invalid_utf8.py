"""Send bytes that are no text."""

import os

GROUP = "exchange"
EXPECT = "frame.not_utf8"
WHY = "Text that cannot be written cannot be recorded or shown."
CONTROL = "taken"


def attempt() -> str:
    data = b'{"t":"result","value":"\xff\xfe"}\n'
    while data:
        data = data[os.write(3, data) :]
    return "sent it"
