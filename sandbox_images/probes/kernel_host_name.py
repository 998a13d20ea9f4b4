"""Set the host's name."""

import socket

GROUP = "kernel"
EXPECT = "EPERM"
WHY = "A name is trusted by what reads it."


def attempt() -> str:
    socket.sethostname(socket.gethostname())
    return "set the name"
