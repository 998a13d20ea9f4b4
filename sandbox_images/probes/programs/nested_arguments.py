"""Leave calls unanswered whose arguments are short as text and large in memory."""

import os

GROUP = "exchange"
EXPECT = "call.too_many"
WHY = "Arguments that wait are held parsed: 128 MiB of text could be gigabytes of the host."
CONTROL = "taken"

CALL = b'{"t":"call","c":%d,"scope":"/","fn":"now","n":%d,"args":{"x":[%b]},"site":"x:1"}\n'
LISTS = b",".join([b"[]"] * 100_000)


def attempt() -> str:
    data = b"".join(CALL % (number, number, LISTS) for number in range(1, 25))
    while data:
        data = data[os.write(3, data) :]
    return "sent it"
