"""Make an internet socket."""

import socket

GROUP = "network"
EXPECT = {"runc": "EPERM"}
WHY = "Without a socket nothing can be sent, whatever interface exists."


def attempt() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM):
        return "made an AF_INET socket"
