"""Send numbers that no machine holds."""

import os

GROUP = "exchange"
EXPECT = "frame.bad_field"
WHY = "A count that is huge, negative or no number breaks whoever counts with it."
CONTROL = "taken"


def attempt() -> str:
    data = b'{"t":"call","c":1,"scope":"/","fn":"now","n":-99999999999999999999,"args":{},"site":"x:1"}\n'
    while data:
        data = data[os.write(3, data) :]
    return "sent it"
