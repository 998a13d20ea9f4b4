"""Make a netlink socket."""

import socket

GROUP = "network"
EXPECT = "EPERM"
WHY = "Netlink configures interfaces, routes and firewalls."


def attempt() -> str:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW):
        return "made an AF_NETLINK socket"
