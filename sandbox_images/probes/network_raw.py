"""Make a raw internet socket."""

import socket

GROUP = "network"
EXPECT = "EPERM"
WHY = "It forges packets below TCP and UDP."


def attempt() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP):
        return "made a raw socket"
