"""Connect to a TCP port that the host listens on."""

import socket

from _kernel import parameter

GROUP = "network"
EXPECT = {"runc": "EPERM", "runsc": "ECONNREFUSED"}
WHY = "Services that trust the local machine would trust the cell."


def attempt() -> str:
    with socket.create_connection(("127.0.0.1", parameter("tcp_port")), timeout=2):
        return "connected to a port of the host"
