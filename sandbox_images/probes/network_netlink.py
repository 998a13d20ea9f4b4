"""Make a netlink socket."""

import socket

GROUP = "network"
EXPECT = {"runc": "EPERM"}
WHY = "Netlink configures interfaces, routes and firewalls, and its parsers were broken often."


def attempt() -> str:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW):
        return "made an AF_NETLINK socket"
