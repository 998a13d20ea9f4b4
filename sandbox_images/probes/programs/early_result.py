"""Give the result first and call afterwards."""

import os

GROUP = "exchange"
EXPECT = "frame.out_of_order"
WHY = "A run that is over must have no effects any more."
CONTROL = "taken"

CALL = b'{"t":"call","c":%d,"scope":"/","fn":"now","n":1,"args":{},"site":"x:1"}\n'


def attempt() -> str:
    data = b'{"t":"result","value":1}\n' + CALL % 1
    while data:
        data = data[os.write(3, data) :]
    return "sent it"
