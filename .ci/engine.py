#!/usr/bin/env python3
"""A Docker engine for `make`: uses the one that answers, and starts a private one only when none does.

Owns everything below its own root directory (data, sockets, pid files, log, record) and the engine it recorded there.
It refuses to touch an engine that it did not start, writes no engine configuration but its own engine's, and makes no bridge and no
firewall rule: cells have no network. Standard library only.

    engine.py start     0 when an engine answers, started or found
    engine.py stop      stops the recorded engine, with its containers and helper processes
    engine.py status    0 when an engine answers; says whose it is
    engine.py gvisor    adds the runtime `runsc` to the recorded engine, which goes on meanwhile; refuses any other

`start`, `stop` and `status` with `second` behind them mean another engine, of our own in any case, that has the runtime from its start.
Tests of cells use it beside the first. Where it cannot be started, `start second` says why and gives 0, but 1 where CI is set.

`CLOCHE_ENGINE_ROOT` moves the root and puts the socket in it, `CLOCHE_ENGINE_PATIENCE_S` bounds each wait (30 s),
`CLOCHE_ENGINE_RUNSC` names the runtime's program, and `DOCKER_HOST` names an engine to use instead of the first.
"""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import quote

import places
from leftovers import sweep, thaw, unmount
from packages import install, under_systemd
from places import PATIENCE_S, EngineTrouble, Place, answers, find_program, listens, recorded, remember, request
from processes import kill, lives, wait_until

LABEL = "io.cloche.home"
ENGINE_ADVICE = (
    "No Docker engine answers; install and start Docker (on Debian as root: apt-get install docker.io) and repeat."
)
GVISOR_ADVICE = "gVisor is not installed; install it (on Debian as root: apt-get install runsc) and repeat."


# Starting


def launch(place: Place, dockerd: str) -> bool:
    """Starts one engine and waits for it. False when it died or did not answer in time; then nothing of it is left."""
    argv = [dockerd, "--config-file", str(place.config), "--host", place.address]
    argv += ["--data-root", str(place.data), "--exec-root", str(place.run / "exec"), "--pidfile", str(place.pidfile)]
    argv += ["--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false"]
    argv += ["--userland-proxy=false"]
    if not under_systemd():  # where systemd owns the cgroups, a parent has to be a slice of its
        argv += ["--cgroup-parent", place.cgroup]
    places.configure(place)
    with place.log.open("wb") as log:
        engine = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True
        )
    remember(place, engine.pid)
    wait_until(lambda: engine.poll() is not None or answers(place.address), PATIENCE_S)
    if engine.poll() is None and answers(place.address):
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
    dockerd = find_program("dockerd")
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
    """The engine that DOCKER_HOST names, the one at the default socket, or ours."""
    if place.second:
        start_second(place)
        return
    named = os.environ.get("DOCKER_HOST", "")
    address = named or place.address
    if named.partition(":")[0] not in ("", "unix", "tcp", "http"):
        say(f"using the engine at {named}, as DOCKER_HOST says")
        return
    if there(address, place):
        return
    if named and named != place.address:
        raise EngineTrouble(f"no engine answers at {named}; start it, or unset DOCKER_HOST to use the local one.")
    if find_program("dockerd") is None:
        install("docker.io", instead=ENGINE_ADVICE)
    if under_systemd() and place.socket == places.DEFAULT_SOCKET and os.geteuid() == 0:
        # The service manager owns the engine of this socket: ours beside it would take its socket away.
        subprocess.run(["systemctl", "start", "docker"], check=False, stdin=subprocess.DEVNULL)
        if not wait_until(lambda: answers(address), PATIENCE_S):
            raise EngineTrouble("systemctl start docker did not bring up an engine; see `journalctl -u docker`.")
        return
    if os.geteuid() != 0:
        raise EngineTrouble("Docker is installed but not running, and only root can start it; start it and repeat.")
    start_ours(place)


def start_second(place: Place) -> None:
    """Our engine with gVisor, beside whatever else there is.

    Raises:
        EngineTrouble: not root, not Debian and not installed, or it did not come up.
    """
    if there(place.address, place):
        if not places.has_gvisor(place.address):
            raise EngineTrouble(f"the engine at {place.address} has no gVisor; run `make engine-stop` and repeat.")
        return
    if os.geteuid() != 0:
        raise EngineTrouble("the engine with gVisor beside the first one can be started by root only.")
    if find_program("dockerd") is None:
        install("docker.io", instead=ENGINE_ADVICE)
    if places.find_gvisor() is None:
        install("runsc", instead=GVISOR_ADVICE)
    start_ours(place)


def there(address: str, place: Place) -> bool:
    """Whether an engine answers, after a while if it has just begun to listen.

    Raises:
        EngineTrouble: one listens and never answers.
    """
    if answers(address) or (listens(address) and wait_until(lambda: answers(address), PATIENCE_S)):
        return True
    if listens(address):
        remedy = "run `make engine-stop`" if recorded(place) else "restart it"
        raise EngineTrouble(f"the engine at {address} accepts connections but does not answer; {remedy} and repeat.")
    return False


def start_ours(place: Place) -> None:
    """One start at a time: who waited for another's finds that engine."""
    with exclusive(place):
        if not answers(place.address):
            begun = time.monotonic()
            start_private(place)
            kind = "an engine with gVisor" if place.second else "an engine"
            say(f"started {kind} at {place.socket} in {time.monotonic() - begun:.1f} s; `make engine-stop` ends it")


# gVisor


def add_gvisor(place: Place) -> None:
    """Install `runsc` and have our own engine know it; the engine reads its file anew and its cells go on.

    Raises:
        EngineTrouble: another's engine, with what its operator would write; or the engine did not take it.
    """
    address = os.environ.get("DOCKER_HOST") or place.address
    if address != place.address or recorded(place) is None:
        raise EngineTrouble(refusal(address))
    if os.geteuid() != 0:
        raise EngineTrouble("the engine was started by root; run `make gvisor` as root.")
    if places.find_gvisor() is None:
        install("runsc", instead=GVISOR_ADVICE)
    with exclusive(place):
        pid = recorded(place)
        if pid is None or not answers(address):
            raise EngineTrouble("the engine that `make engine` started is gone; run `make engine` and repeat.")
        had = places.has_gvisor(address)
        place.registered.touch()
        places.configure(place)
        kill(pid, signal.SIGHUP)
        if not wait_until(lambda: places.has_gvisor(address), PATIENCE_S):
            raise EngineTrouble(f"the engine did not take the runtime; see {place.log}.")
    done = "the engine has gVisor already" if had else "added gVisor to the engine; running cells went on"
    say(f"{done}. `cloche doctor` tries it, and `auto` takes it for new cells once a trial cell has passed")


def refusal(address: str) -> str:
    """What the operator of another's engine would write."""
    return (
        f"the engine at {address} was not started by `make engine`, so its configuration is left alone. Its operator can add "
        f"gVisor: install runsc, write {json.dumps({'runtimes': places.runtimes()})} into the engine's daemon.json "
        "(usually /etc/docker/daemon.json), and have it read that (`systemctl reload docker`, or SIGHUP to dockerd)."
    )


# Stopping


def stop(place: Place) -> None:
    if not place.record.exists():
        say(
            "no engine with gVisor is ours here" if place.second else "no engine was started from here; nothing to stop"
        )
        return
    if os.geteuid() != 0:
        raise EngineTrouble("the engine was started by root; run `make engine-stop` as root.")
    with exclusive(place):
        pid = recorded(place)
        if pid is not None:
            thaw(place)
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
        kind = "the engine with gVisor" if place.second else "the engine"
        say(f"stopped {kind}" if pid is not None else f"{kind} was gone already")


def kill_cells(place: Place) -> None:
    """Ends and removes Cloche's own containers at once; the engine would give them 10 s each, as it does others."""
    wanted = quote(json.dumps({"label": [LABEL]}))
    try:
        for container in json.loads(request(place.address, "GET", f"/containers/json?all=1&filters={wanted}")):
            request(place.address, "DELETE", f"/containers/{container['Id']}?force=1", timeout_s=10)
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
    address = place.address if place.second else os.environ.get("DOCKER_HOST") or place.address
    if not answers(address):
        raise EngineTrouble(f"no engine answers at {address}; `make engine` starts one.")
    pid = recorded(place)
    say(f"an engine answers at {address}; " + (f"started from here, pid {pid}" if pid else "not started from here"))


def say(text: str) -> None:
    print(f"cloche: {text}", flush=True)


def main(arguments: list[str]) -> int:
    verbs: dict[str, Callable[[Place], None]] = {"start": start, "stop": stop, "status": status, "gvisor": add_gvisor}
    second = arguments[1:] == ["second"]
    if not arguments or arguments[0] not in verbs or (arguments[1:] and (not second or arguments[0] == "gvisor")):
        print("usage: engine.py start|stop|status [second], engine.py gvisor", file=sys.stderr)
        return 64
    try:
        verbs[arguments[0]](Place.chosen(second=second))
    except EngineTrouble as trouble:
        if second and arguments[0] == "start" and not os.environ.get("CI"):
            say(f"cells are not tried under gVisor here: {trouble}")
            return 0
        print(f"cloche: {trouble}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
