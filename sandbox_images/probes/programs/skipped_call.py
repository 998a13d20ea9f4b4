"""Number a call as if there had been others before it."""

import os

GROUP = "exchange"
EXPECT = "call.out_of_order"
WHY = "A gap in the numbers would be a call that nobody recorded."
CONTROL = "taken"

CALL = b'{"t":"call","c":%d,"scope":"/","fn":"now","n":1,"args":{},"site":"x:1"}\n'


def attempt() -> str:
    data = CALL % 1000000
    while data:
        data = data[os.write(3, data) :]
    return "sent it"
