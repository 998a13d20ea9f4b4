"""Send the parts of a value twice and use it twice."""

import os

GROUP = "exchange"
EXPECT = "part.out_of_order"
WHY = "What was used must not be there again."
CONTROL = "taken"

PART = b'{"t":"part","id":1,"i":1,"of":1,"data":"{}"}\n'
CALL = b'{"t":"call","c":%d,"scope":"/","fn":"now","n":1,"args_part":1,"site":"x:1"}\n'


def attempt() -> str:
    data = (PART + CALL % 1) + (PART + CALL % 2)
    while data:
        data = data[os.write(3, data) :]
    return "sent it"
