"""Give a dict whose key is a value of the package that holds a dict whose key is one …: each is made text for each that it lies in."""

import os

GROUP = "exchange"
EXPECT = "value.not_canonical"
WHY = (
    "50 KB in 40 levels kept PID 1, and then the host, busy for a minute and a half, in which neither looks at a clock."
)
CONTROL = "taken"

BEFORE, AFTER = b'{"$dict":[[{"$data":["workflows.x.workflow:X",{"field":', b"}]},1]]}"
LEVELS = 8
LIST = b"[%b]" % b",".join([b"1"] * 2000)


def attempt() -> str:
    data = b'{"t":"result","value":%b%b%b}\n' % (BEFORE * LEVELS, LIST, AFTER * LEVELS)
    while data:
        data = data[os.write(3, data) :]
    return "sent it"
