"""Deliver an output file with a path that leads out of its folder."""

import os

GROUP = "exchange"
EXPECT = "frame.unknown_type"
WHY = (
    "The host writes artifacts to its disk; their paths come from the supervisor, checked, and never from the program."
)
CONTROL = "taken"


def attempt() -> str:
    data = b'{"t":"artifact","path":"../../../etc/passwd","i":1,"of":1,"size":0,"data":""}\n'
    while data:
        data = data[os.write(3, data) :]
    return "sent it"
