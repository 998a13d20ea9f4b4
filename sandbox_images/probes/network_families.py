"""Make a socket of any other family: AF_ALG, AF_KEY, AF_TIPC, AF_CAN, AF_XDP and the rest."""

import socket
from functools import partial

from _kernel import any_of

GROUP = "network"
EXPECT = {"runc": "EPERM", "runsc": "EAFNOSUPPORT"}
WHY = "Rarely used families are where kernels break."

ELSEWHERE = {socket.AF_INET6, socket.AF_NETLINK, socket.AF_PACKET, 40}
"""Attempts of their own."""


def attempt() -> str:
    ways = []
    for family in range(3, 46):
        if family not in ELSEWHERE:
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
                ways.append((f"family {family}, type {int(kind)}", partial(_make, family, int(kind))))
    return f"made a socket: {any_of(ways)}"


def _make(family: int, kind: int) -> None:
    socket.socket(family, kind).close()
