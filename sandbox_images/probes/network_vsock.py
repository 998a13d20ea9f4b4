"""Make a socket to the hypervisor."""

import socket

GROUP = "network"
EXPECT = {"runc": "EPERM", "runsc": "EAFNOSUPPORT"}
WHY = "No network namespace holds AF_VSOCK; it reaches the machine below."


def attempt() -> str:
    with socket.socket(40, socket.SOCK_STREAM):
        return "made an AF_VSOCK socket"
