"""Send one message that two readers understand differently."""

import os

GROUP = "exchange"
EXPECT = "frame.not_json"
WHY = "What is checked by one reader and used by another must mean the same to both."
CONTROL = "taken"


def attempt() -> str:
    data = b'{"t":"result","value":1,"t":"end"}\n'
    while data:
        data = data[os.write(3, data) :]
    return "sent it"
