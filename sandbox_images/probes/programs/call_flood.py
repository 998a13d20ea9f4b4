"""Leave 5,000 calls unanswered."""

import os

GROUP = "exchange"
EXPECT = "call.too_many"
WHY = "Every open call takes memory and a task of the host."
CONTROL = "taken"

CALL = b'{"t":"call","c":%d,"scope":"/","fn":"now","n":%d,"args":{},"site":"x:1"}\n'


def attempt() -> str:
    data = b"".join(CALL % (number, number) for number in range(1, 5001))
    while data:
        data = data[os.write(3, data) :]
    return "sent it"
