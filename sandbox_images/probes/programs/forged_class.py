"""Give a result that names a function to be called on arrival."""

import os

GROUP = "exchange"
EXPECT = "value.not_canonical"
WHY = "Decoding by a name from the message executes whatever the sender likes."
CONTROL = "taken"


def attempt() -> str:
    data = b'{"t":"result","value":{"$data":["os:system",{"command":"id"}]}}\n'
    while data:
        data = data[os.write(3, data) :]
    return "sent it"
