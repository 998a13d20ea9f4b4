"""Send 3,000 messages that say nothing."""

import os

GROUP = "resources"
EXPECT = "limit:messages"
WHY = "Every message costs the host time; their number is bounded."
SETTINGS = {"messages": 1_000}
CONTROL = "taken"


def attempt() -> str:
    data = b'{"t":"quiet","upto":0}\n' * 3000
    while data:
        data = data[os.write(3, data) :]
    return "sent 3,000 messages"
