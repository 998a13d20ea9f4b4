"""Make a packet socket."""

import socket

GROUP = "network"
EXPECT = "EPERM"
WHY = "It sees and forges every frame of an interface."


def attempt() -> str:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW):
        return "made an AF_PACKET socket"
