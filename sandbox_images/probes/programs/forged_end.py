"""Say the last word in the supervisor's place."""

import os

GROUP = "exchange"
EXPECT = "frame.unknown_type"
WHY = "Who says how a cell ended, says that it succeeded."
CONTROL = "taken"


def attempt() -> str:
    data = b'{"t":"end","cause":"exit","detail":"returned","exit":0,"stragglers":0,"usage":{}}\n'
    while data:
        data = data[os.write(3, data) :]
    return "sent it"
