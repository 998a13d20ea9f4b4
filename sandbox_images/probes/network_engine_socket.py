"""Find the socket of a container engine, of an SSH agent or of the message bus."""

import os
import socket

from _kernel import NothingFound

GROUP = "network"
EXPECT = "NothingFound"
WHY = "Who speaks to the engine owns the machine."

PLACES = (
    "/var/run/docker.sock",
    "/run/docker.sock",
    "/run/containerd/containerd.sock",
    "/run/podman/podman.sock",
    "/run/crio/crio.sock",
    "/run/dbus/system_bus_socket",
    "/run/systemd/private",
)


def control() -> None:
    os.makedirs("/var/run", exist_ok=True)
    socket.socket(socket.AF_UNIX).bind(PLACES[0])


def attempt() -> str:
    places = [*PLACES, *filter(None, (os.environ.get(name) for name in ("SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS")))]
    for place in places:
        if os.path.exists(place):
            return f"found {place}"
    raise NothingFound(f"none of {len(places)} places")
