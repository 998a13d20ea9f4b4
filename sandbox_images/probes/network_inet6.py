"""Make an IPv6 socket."""

import socket

GROUP = "network"
EXPECT = {"runc": "EPERM"}
WHY = "A second family is a second way out."


def attempt() -> str:
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM):
        return "made an AF_INET6 socket"
