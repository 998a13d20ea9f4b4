"""See the host's sockets in /proc/net."""

import os
from pathlib import Path

from _kernel import NothingFound, parameter

GROUP = "network"
EXPECT = "NothingFound"
WHY = "What listens on the host tells where to attack it."


def attempt() -> str:
    name, port = parameter("abstract_socket"), f":{parameter('tcp_port'):04X} "
    for path, wanted in (("/proc/net/unix", f"@{name}"), ("/proc/net/tcp", port)):
        if os.path.exists(path) and wanted in Path(path).read_text():
            return f"saw a socket of the host in {path}"
    raise NothingFound("no socket of the host")
