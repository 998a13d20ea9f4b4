#!/usr/bin/env python3
"""A Docker engine for `make`: uses the one that answers, and starts a private one only when none does.

Owns everything below its own root directory (data, sockets, pid files, log, record) and the engine it recorded there.
It refuses to touch an engine that it did not start, writes no engine configuration, and makes no bridge and no firewall
rule: cells have no network. Standard library only.

    engine.py start     0 when an engine answers, started or found
    engine.py stop      stops the recorded engine, with its containers and helper processes
    engine.py status    0 when an engine answers; says whose it is

`CLOCHE_ENGINE_ROOT` moves the root and puts the socket in it, `CLOCHE_ENGINE_PATIENCE_S` bounds each wait (30 s), and
`DOCKER_HOST` names an engine to use instead.
"""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

DEFAULT_SOCKET = Path("/var/run/docker.sock")
LABEL = "io.cloche.home"
# To come up, or to go down. An engine gives the containers it finds or leaves 10 s to stop, so less is not enough.
PATIENCE_S = float(os.environ.get("CLOCHE_ENGINE_PATIENCE_S") or 30)
POLL_S = 0.05


class EngineTrouble(Exception):
    """What happened and what to do about it, in one sentence."""


@dataclass(frozen=True)
class Place:
    """Where the private engine lives. Sockets below `run` must stay under the 107 bytes of a unix address."""

    data: Path
    run: Path
    socket: Path

    @classmethod
    def chosen(cls) -> Place:
        root = os.environ.get("CLOCHE_ENGINE_ROOT")
        if root:
            base = Path(root).absolute()
            return cls(data=base / "data", run=base / "run", socket=base / "docker.sock")
        return cls(data=Path("/var/lib/cloche-engine"), run=Path("/run/cloche-engine"), socket=DEFAULT_SOCKET)

    @property
    def record(self) -> Path:
        return self.run / "engine.json"

    @property
    def log(self) -> Path:
        return self.run / "dockerd.log"

    @property
    def config(self) -> Path:
        """An empty file, named so that the machine's own configuration is not read."""
        return self.run / "empty.json"

    @property
    def pidfile(self) -> Path:
        return self.run / "docker.pid"

    @property
    def containerd_pidfile(self) -> Path:
        return self.run / "exec" / "containerd" / "containerd.pid"


# Talking to an engine


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


# Processes


def stat_fields(pid: int) -> tuple[str, str, int, int] | None:
    """Name, state, parent and start time of a process; None when there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    name, rest = text[text.index("(") + 1 :].rsplit(")", 1)
    fields = rest.split()
    return name, fields[0], int(fields[1]), int(fields[19])


def lives(pid: int, *, name: str = "", started: int | None = None) -> bool:
    found = stat_fields(pid)
    if found is None or found[1] in "ZX":
        return False
    return (not name or found[0] == name) and (started is None or found[3] == started)


def wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def pid_in(file: Path) -> int | None:
    try:
        return int(file.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def belonging(place: Place) -> list[int]:
    """containerd and shims whose command line names our run directory, and before them the programs of those shims."""
    owned: list[int] = []
    everyone = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    mark = f"{place.run}/".encode()
    for pid in everyone:
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if b"containerd" in line.split(b"\0")[0] and mark in line and lives(pid):
            owned.append(pid)
    programs = [pid for pid in everyone if (found := stat_fields(pid)) and found[2] in owned and lives(pid)]
    programs = [pid for pid in programs if pid not in owned]
    return programs + owned


def kill(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def sweep(place: Place) -> None:
    """Ends what a dead engine left running. Only for when the engine itself is known to be gone."""
    for pid in belonging(place):
        kill(pid, signal.SIGKILL)
    wait_until(lambda: not belonging(place), 5)
    # A new engine takes a zombie containerd for a living one, waits 15 s for it and gives up.
    place.containerd_pidfile.unlink(missing_ok=True)
    place.pidfile.unlink(missing_ok=True)


def unmount(place: Place) -> None:
    """Undoes the mounts that an engine leaves on and below its directories; the deepest goes first."""
    with Path("/proc/self/mountinfo").open(encoding="utf-8", errors="replace") as table:
        points = [line.split()[4] for line in table]
    ours = [p for p in points if any(p == str(d) or p.startswith(f"{d}/") for d in (place.data, place.run))]
    for point in sorted(ours, key=len, reverse=True):
        subprocess.run(["umount", "--lazy", point], check=False, stderr=subprocess.DEVNULL)


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


# Installing and starting


def install() -> None:
    """docker.io from Debian, without its recommendations.

    Raises:
        EngineTrouble: not Debian, not root, or apt-get could not.
    """
    advice = (
        "No Docker engine answers; install and start Docker (on Debian as root: apt-get install docker.io) and repeat."
    )
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise EngineTrouble(advice)
    say("installing docker.io")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    if not under_systemd():
        environment["RUNLEVEL"] = "1"  # keeps the package from starting an engine with a bridge and firewall rules
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "docker.io"]
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:  # the package lists are absent or too old
        subprocess.run(["apt-get", "update", "-qq"], env=environment, stdin=subprocess.DEVNULL, capture_output=True)
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise EngineTrouble(f"apt-get could not install docker.io: {done.stderr.strip()[-500:]}")


def under_systemd() -> bool:
    return Path("/run/systemd/system").is_dir()


def find_dockerd() -> str | None:
    return shutil.which("dockerd", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"]))


def launch(place: Place, dockerd: str) -> bool:
    """Starts one engine and waits for it. False when it died or did not answer in time; then nothing of it is left."""
    argv = [dockerd, "--config-file", str(place.config), "--host", f"unix://{place.socket}"]
    argv += ["--data-root", str(place.data), "--exec-root", str(place.run / "exec"), "--pidfile", str(place.pidfile)]
    argv += ["--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false"]
    argv += ["--userland-proxy=false"]
    place.config.write_text("{}", encoding="utf-8")
    with place.log.open("wb") as log:
        engine = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True
        )
    remember(place, engine.pid)
    address = f"unix://{place.socket}"
    wait_until(lambda: engine.poll() is not None or answers(address), PATIENCE_S)
    if engine.poll() is None and answers(address):
        return True
    engine.kill()
    engine.wait()
    sweep(place)
    place.record.unlink(missing_ok=True)
    return False


def start_private(place: Place) -> None:
    """The private engine, answering. Tries twice: the second time nothing of an earlier one is in the way.

    Raises:
        EngineTrouble: it did not come up; the end of its log is in the message.
    """
    dockerd = find_dockerd()
    if dockerd is None:
        raise EngineTrouble("apt-get installed docker.io, but dockerd is not on PATH; add its directory and repeat.")
    for directory in (place.data, place.run):
        directory.mkdir(mode=0o711, parents=True, exist_ok=True)
    deaf = recorded(place)
    if deaf is not None:
        raise EngineTrouble(
            f"the engine started before (pid {deaf}) does not listen; run `make engine-stop` and repeat."
        )
    for _attempt in range(2):
        sweep(place)
        if launch(place, dockerd):
            return
    tail = place.log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
    raise EngineTrouble("\n".join([f"the engine did not start; its log {place.log} ends with:", *tail]))


def start(place: Place) -> None:
    named = os.environ.get("DOCKER_HOST", "")
    address = named or f"unix://{place.socket}"
    if named.partition(":")[0] not in ("", "unix", "tcp", "http"):
        say(f"using the engine at {named}, as DOCKER_HOST says")
        return
    if answers(address) or (listens(address) and wait_until(lambda: answers(address), PATIENCE_S)):
        return
    if listens(address):
        remedy = "run `make engine-stop`" if recorded(place) else "restart it"
        raise EngineTrouble(f"the engine at {address} accepts connections but does not answer; {remedy} and repeat.")
    if named and named != f"unix://{place.socket}":
        raise EngineTrouble(f"no engine answers at {named}; start it, or unset DOCKER_HOST to use the local one.")
    if find_dockerd() is None:
        install()
    if under_systemd() and place.socket == DEFAULT_SOCKET and os.geteuid() == 0:
        # The service manager owns the engine of this socket: ours beside it would take its socket away.
        subprocess.run(["systemctl", "start", "docker"], check=False, stdin=subprocess.DEVNULL)
        if not wait_until(lambda: answers(address), PATIENCE_S):
            raise EngineTrouble("systemctl start docker did not bring up an engine; see `journalctl -u docker`.")
        return
    if os.geteuid() != 0:
        raise EngineTrouble("Docker is installed but not running, and only root can start it; start it and repeat.")
    with exclusive(place):
        if not answers(address):
            begun = time.monotonic()
            start_private(place)
            say(f"started an engine at {place.socket} in {time.monotonic() - begun:.1f} s; `make engine-stop` ends it")


# Stopping


def stop(place: Place) -> None:
    if not place.record.exists():
        say("no engine was started from here; nothing to stop")
        return
    if os.geteuid() != 0:
        raise EngineTrouble("the engine was started by root; run `make engine-stop` as root.")
    with exclusive(place):
        pid = recorded(place)
        if pid is not None:
            kill_cells(place)
            kill(pid, signal.SIGTERM)
            if not wait_until(lambda: not lives(pid), PATIENCE_S):
                kill(pid, signal.SIGKILL)
                if not wait_until(lambda: not lives(pid), PATIENCE_S):
                    raise EngineTrouble(f"the engine (pid {pid}) survives SIGKILL; see {place.log}.")
            place.socket.unlink(missing_ok=True)
        sweep(place)
        unmount(place)
        place.record.unlink(missing_ok=True)
        say("stopped the engine" if pid is not None else "the engine was gone already")


def kill_cells(place: Place) -> None:
    """Ends and removes Cloche's own containers at once; the engine would give them 10 s each, as it does others."""
    address = f"unix://{place.socket}"
    wanted = quote(json.dumps({"label": [LABEL]}))
    try:
        for container in json.loads(request(address, "GET", f"/containers/json?all=1&filters={wanted}")):
            request(address, "DELETE", f"/containers/{container['Id']}?force=1", timeout_s=10)
    except (OSError, ValueError, http.client.HTTPException) as error:
        say(f"could not remove cells before stopping: {error}")


# Saying and choosing


@contextmanager
def exclusive(place: Place) -> Iterator[None]:
    """One start or stop at a time; the second waits."""
    place.run.mkdir(mode=0o711, parents=True, exist_ok=True)
    with (place.run / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def status(place: Place) -> None:
    address = os.environ.get("DOCKER_HOST") or f"unix://{place.socket}"
    if not answers(address):
        raise EngineTrouble(f"no engine answers at {address}; `make engine` starts one.")
    pid = recorded(place)
    say(f"an engine answers at {address}; " + (f"started from here, pid {pid}" if pid else "not started from here"))


def say(text: str) -> None:
    print(f"cloche: {text}", flush=True)


def main(arguments: list[str]) -> int:
    verbs: dict[str, Callable[[Place], None]] = {"start": start, "stop": stop, "status": status}
    if len(arguments) != 1 or arguments[0] not in verbs:
        print("usage: engine.py start|stop|status", file=sys.stderr)
        return 64
    try:
        verbs[arguments[0]](Place.chosen())
    except EngineTrouble as trouble:
        print(f"cloche: {trouble}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
