"""Connect to the address of a cloud's metadata service."""

import fcntl
import socket
import struct

from _kernel import call

GROUP = "network"
EXPECT = {"runc": "EPERM", "runsc": "EHOSTUNREACH or ENETUNREACH"}
WHY = "It hands out the machine's credentials to whoever asks."

ADDRESS = "169.254.169.254"
UNSHARE, CLONE_NEWNET = 272, 0x40000000
SIOCSIFADDR, SIOCSIFFLAGS, IFF_UP = 0x8916, 0x8914, 1
KEPT: list[socket.socket] = []


def control() -> None:
    """A network namespace of its own with such a service: not every machine has one."""
    call(UNSHARE, CLONE_NEWNET)
    listening = socket.socket(socket.AF_INET)
    wanted = struct.pack("16sH2s4s8x", b"lo", socket.AF_INET, b"", socket.inet_aton(ADDRESS))
    fcntl.ioctl(listening, SIOCSIFADDR, wanted)
    fcntl.ioctl(listening, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))
    listening.bind((ADDRESS, 80))
    listening.listen()
    KEPT.append(listening)


def attempt() -> str:
    with socket.create_connection((ADDRESS, 80), timeout=2):
        return f"connected to {ADDRESS}"
