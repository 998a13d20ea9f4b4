"""Attest in the supervisor's place."""

import os

GROUP = "exchange"
EXPECT = "frame.unknown_type"
WHY = "An attestation by the code that it is about proves nothing."
CONTROL = "taken"


def attempt() -> str:
    data = b'{"t":"hello","nonce":"0","attestation":{}}\n'
    while data:
        data = data[os.write(3, data) :]
    return "sent it"
