"""Interleave the parts of two values."""

import os

GROUP = "exchange"
EXPECT = "part.out_of_order"
WHY = "A value put together from parts of another is one that nobody sent."
CONTROL = "taken"

PART = b'{"t":"part","id":%d,"i":%d,"of":2,"data":"[]"}\n'
CALL = b'{"t":"call","c":%d,"scope":"/","fn":"now","n":1,"args_part":1,"site":"x:1"}\n'


def attempt() -> str:
    data = b"".join(PART % part for part in ((1, 1), (2, 1), (1, 2), (2, 2))) + CALL % 1
    while data:
        data = data[os.write(3, data) :]
    return "sent it"
