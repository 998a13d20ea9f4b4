"""Connect to a unix socket of the host, by path or by abstract name."""

import socket

GROUP = "network"
EXPECT = "EPERM"
WHY = "Engine, agent and desktop sockets give away the host."


def attempt() -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM):
        return "made an AF_UNIX socket"
