"""Send a result of another generation, with version and sequence of its own."""

import os

GROUP = "exchange"
EXPECT = "frame.unknown_field"
WHY = "A late frame of a run that was interrupted must not be taken for one of the run that goes on."
CONTROL = "taken"


def attempt() -> str:
    data = b'{"v":1,"g":7,"q":1,"t":"result","value":1}\n'
    while data:
        data = data[os.write(3, data) :]
    return "sent it"
