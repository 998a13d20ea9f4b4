"""What the probe lays out on the host: the attempts as a snapshot, and things of the host that they look for."""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from engine.files import make_directory, sha256_hex, storage
from engine.sandbox.attempts import Attempt, shared
from engine.settings import planted_variable


@dataclass(frozen=True)
class Bait:
    """`folder` is on the host; `snapshot` in it is what a cell gets. `canary` stands in this process's environment."""

    folder: Path
    canary: str

    @property
    def snapshot(self) -> Path:
        return self.folder / "snapshot"


@contextmanager
def laid_out(home: Path, chosen: Iterable[Attempt]) -> Iterator[Bait]:
    """The attempts, a file, a unix socket by path and by abstract name, a TCP listener and a variable of this process.

    The attempts know the names of all of them, and of the variable a hash of its value: what finds the value has it from the host.
    """
    make_directory(home)
    with storage(home), TemporaryDirectory(prefix=".probe-", dir=home) as place, ExitStack() as open_things:
        folder = Path(place)
        canary = secrets.token_hex(16)
        (folder / "planted.txt").write_text("a file of the host\n", encoding="utf-8")
        open_things.enter_context(planted_variable("CLOCHE_PROBE_SECRET_TOKEN", canary))
        path, abstract, port = _listeners(folder, open_things)
        probes = folder / "snapshot" / "probes"
        probes.mkdir(parents=True)
        for attempt in chosen:
            (probes / f"{attempt.name}.py").write_bytes(attempt.source)
        for name, data in shared().items():
            (probes / name).write_bytes(data)
        (probes / "bait.txt").write_text("unchanged\n", encoding="utf-8")
        parameters = {
            "host_file": str(folder / "planted.txt"),
            "host_name": socket.gethostname(),
            "host_pid": os.getpid(),
            "unix_socket": path,
            "abstract_socket": abstract,
            "tcp_port": port,
            "canary_sha256": sha256_hex(canary.encode()),
        }
        (probes / "parameters.json").write_text(json.dumps(parameters), encoding="utf-8")
        yield Bait(folder, canary)


def _listeners(folder: Path, open_things: ExitStack) -> tuple[str, str, int]:
    """A path may be too long for a socket's address, so it is bound through a descriptor of its folder."""
    at = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    open_things.callback(os.close, at)
    by_path = open_things.enter_context(socket.socket(socket.AF_UNIX))
    by_path.bind(f"/proc/self/fd/{at}/host.sock")
    by_name = open_things.enter_context(socket.socket(socket.AF_UNIX))
    abstract = f"cloche-probe-{secrets.token_hex(8)}"
    by_name.bind(f"\0{abstract}")
    by_port = open_things.enter_context(socket.socket(socket.AF_INET))
    by_port.bind(("127.0.0.1", 0))
    for one in (by_path, by_name, by_port):
        one.listen(8)
    return str(folder / "host.sock"), abstract, by_port.getsockname()[1]
