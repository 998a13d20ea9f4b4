"""Send the same call twice."""

import os

GROUP = "exchange"
EXPECT = "call.repeated"
WHY = "A call that is taken twice has its effect twice."
CONTROL = "taken"

CALL = b'{"t":"call","c":%d,"scope":"/","fn":"now","n":1,"args":{},"site":"x:1"}\n'


def attempt() -> str:
    data = (CALL % 1) * 2
    while data:
        data = data[os.write(3, data) :]
    return "sent it"
