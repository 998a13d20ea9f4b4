"""Where an engine of ours lives, what it is told, whether it answers, and the record that it is ours. Standard library only.

There are two: the one that `make engine` starts where none answers, and a second one beside any other, with gVisor added,
that tests of cells use. `CLOCHE_ENGINE_ROOT` moves either into a directory of its own.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from processes import lives, stat_fields

DEFAULT_SOCKET = Path("/var/run/docker.sock")
# To come up, or to go down. An engine gives the containers it finds or leaves 10 s to stop, so less is not enough.
PATIENCE_S = float(os.environ.get("CLOCHE_ENGINE_PATIENCE_S") or 30)

GVISOR = "runsc"
GVISOR_ARGUMENTS = ("--network=none", "--oci-seccomp", "--host-fifo=open")
"""No network stack (without it a start fails in the host's network namespace); our own list of system calls in force inside, too;
and pipes that the host made in a mounted directory may be opened, which is how a waiting cell is woken."""


class EngineTrouble(Exception):
    """What happened and what to do about it, in one sentence."""


@dataclass(frozen=True)
class Place:
    """Where an engine of ours lives. Sockets below `run` must stay under the 107 bytes of a unix address."""

    data: Path
    run: Path
    socket: Path
    second: bool = False

    @classmethod
    def chosen(cls, *, second: bool) -> Place:
        """The first engine or the second one, there or where CLOCHE_ENGINE_ROOT says."""
        root = os.environ.get("CLOCHE_ENGINE_ROOT")
        if root:
            base = Path(root).absolute()
            return cls(data=base / "data", run=base / "run", socket=base / "docker.sock", second=second)
        name = "cloche-engine-gvisor" if second else "cloche-engine"
        run = Path("/run") / name
        return cls(
            data=Path("/var/lib") / name,
            run=run,
            socket=run / "docker.sock" if second else DEFAULT_SOCKET,
            second=second,
        )

    @property
    def address(self) -> str:
        return f"unix://{self.socket}"

    @property
    def record(self) -> Path:
        return self.run / "engine.json"

    @property
    def log(self) -> Path:
        return self.run / "dockerd.log"

    @property
    def config(self) -> Path:
        """Our own file, named so that the machine's own configuration is not read."""
        return self.run / "daemon.json"

    @property
    def registered(self) -> Path:
        """A mark beside the data that gVisor belongs to this engine: `make gvisor` puts it there."""
        return self.data / "cloche-gvisor"

    @property
    def pidfile(self) -> Path:
        return self.run / "docker.pid"

    @property
    def containerd_pidfile(self) -> Path:
        return self.run / "exec" / "containerd" / "containerd.pid"

    @property
    def cgroup(self) -> str:
        """Parent of its containers' cgroups, by which their processes are found when nothing else of the engine is left."""
        return f"/cloche-{self.run.parent.name}" if os.environ.get("CLOCHE_ENGINE_ROOT") else f"/{self.run.name}"


# What it is told


def find_program(name: str) -> str | None:
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"]))


def find_gvisor() -> str | None:
    """CLOCHE_ENGINE_RUNSC, which tests of broken ones set, or the installed one."""
    return os.environ.get("CLOCHE_ENGINE_RUNSC") or find_program(GVISOR)


def runtimes() -> dict[str, Any]:
    return {GVISOR: {"path": find_gvisor() or f"/usr/bin/{GVISOR}", "runtimeArgs": list(GVISOR_ARGUMENTS)}}


def configure(place: Place) -> None:
    """Write the engine's configuration: nothing, or gVisor as one more runtime."""
    wanted = place.second or (place.registered.exists() and find_gvisor() is not None)
    place.config.write_text(json.dumps({"runtimes": runtimes()} if wanted else {}), encoding="utf-8")


# Talking to it


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def request(address: str, method: str, path: str, *, timeout_s: float = min(5.0, PATIENCE_S)) -> bytes:
    """Body of the engine's answer at `unix:///path` or `tcp://host:port`. Raises OSError or HTTPException."""
    parts = urlsplit(address)
    connection: http.client.HTTPConnection
    if parts.scheme == "unix":
        connection = _UnixConnection(parts.path, timeout_s)
    else:
        connection = http.client.HTTPConnection(parts.hostname or "localhost", parts.port or 2375, timeout=timeout_s)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        body = answer.read()
        if answer.status >= 400:
            raise http.client.HTTPException(f"{method} {path}: {answer.status} {body[:200]!r}")
        return body
    finally:
        connection.close()


def listens(address: str) -> bool:
    """Whether somebody accepts connections at a unix address; a socket left by a dead engine refuses them."""
    parts = urlsplit(address)
    if parts.scheme != "unix":
        return False
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(5)
        return probe.connect_ex(parts.path) == 0


def answers(address: str) -> bool:
    """Whether an engine is there and lets us in.

    Raises:
        EngineTrouble: one is there, and refuses this user.
    """
    try:
        return request(address, "GET", "/_ping") == b"OK"
    except PermissionError:
        where = urlsplit(address).path
        raise EngineTrouble(f"{where} refuses this user; run as root or add the user to its group.") from None
    except (OSError, http.client.HTTPException):
        return False


def has_gvisor(address: str) -> bool:
    """Whether the engine lists the runtime; whether it works is for a trial cell to show."""
    try:
        return GVISOR in (json.loads(request(address, "GET", "/info")).get("Runtimes") or {})
    except (OSError, ValueError, http.client.HTTPException):
        return False


# The record of what we started


def recorded(place: Place) -> int | None:
    """Pid of the engine that we started, if that very process still lives."""
    try:
        saved = json.loads(place.record.read_text(encoding="utf-8"))
        pid, started = int(saved["pid"]), int(saved["started"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return pid if lives(pid, started=started) else None


def remember(place: Place, pid: int) -> None:
    found = stat_fields(pid)
    if found is None:
        return
    aside = place.record.with_suffix(".new")
    aside.write_text(json.dumps({"pid": pid, "started": found[3], "socket": str(place.socket)}), encoding="utf-8")
    aside.replace(place.record)
