"""Acknowledge what the host has not sent."""

import os

GROUP = "exchange"
EXPECT = "frame.unknown_type"
WHY = "What is acknowledged is removed; an acknowledgement ahead of time would lose frames."
CONTROL = "taken"


def attempt() -> str:
    data = b'{"t":"ack","upto":1000000}\n'
    while data:
        data = data[os.write(3, data) :]
    return "sent it"
