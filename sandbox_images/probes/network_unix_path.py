"""Connect to a unix socket of the host by its path."""

import os
import socket

from _kernel import parameter

GROUP = "network"
EXPECT = {"runc": "EPERM", "runsc": "ENOENT"}
WHY = "Engines, agents and desktops listen there, and obey."


def attempt() -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        folder, name = os.path.split(parameter("unix_socket"))
        os.chdir(folder)  # a path may be too long for an address
        client.connect(name)
        return "connected to a socket of the host"
