"""Give a set of two numbers that have one hash, one a Decimal and one very long: to tell them apart takes minutes in one step."""

import os

GROUP = "exchange"
EXPECT = "value.not_canonical"
WHY = "PID 1 and the host would keep no deadline and hear no cancellation while they compare."
CONTROL = "taken"

LONG = (2**61 - 1 << 800_000) + 5
VALUE = b'{"$set":[{"$decimal":"5"},{"$int":"%b"}]}'


def attempt() -> str:
    data = b'{"t":"result","value":%b}\n' % (VALUE % hex(LONG).encode())
    while data:
        data = data[os.write(3, data) :]
    return "sent it"
