"""Connect to a unix socket of the host by its abstract name."""

import socket

from _kernel import parameter

GROUP = "network"
EXPECT = {"runc": "EPERM", "runsc": "ECONNREFUSED"}
WHY = "Abstract names know no file rights; only the network namespace holds them."


def attempt() -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect("\0" + parameter("abstract_socket"))
        return "connected to an abstract socket of the host"
