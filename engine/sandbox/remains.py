"""Processes of a cell that live on without a container in the engine's list, found and ended by the container's id.

After a start that failed, or when a shim was killed, a runtime's processes can outlive what the engine lists (shim, runc,
runsc-sandbox, runsc-gofer; facts measured with Docker 20.10). They carry the id in their cgroup, or on the command line of one
of the runtime's programs. The id is 64 random hex digits that the engine drew and that this home wrote down for its own cells,
so nothing else carries it; a command of an operator that names it (`docker logs …`) is no runtime's program and is left alone.

Behind a remote engine, or from within a container, their processes are not visible here and nothing is found.
"""

from __future__ import annotations

import os
import re
import select
import signal
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from engine.errors import SandboxError
from engine.sandbox.cgroup import directories_of
from engine.sandbox.freezer import thaw

PROC = Path("/proc")
RUNTIMES = ("containerd-shim", "runc", "runsc", "crun", "conmon")
"""How the programs of runtimes are called, as far as they go on: the beginnings of their own names for themselves."""

END_S = 5.0
"""From the first kill to the end of the last process, at most."""

_ID = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


class RemainsAlive(SandboxError):
    """Processes of a cell live on without a container, and could not be ended."""

    code = "remains_alive"


def find(containers: Collection[str], *, proc: Path = PROC) -> dict[str, tuple[int, ...]]:
    """Pids of living processes by container id, for those ids that have any. One look at every process of the machine."""
    wanted = {identity.encode() for identity in containers if identity}
    found: dict[str, list[int]] = {}
    if wanted:
        for entry in os.listdir(proc):  # noqa: PTH208 - hundreds of names, and no need of paths
            if entry.isdigit():
                for identity in _ids_of(int(entry), proc) & wanted:
                    found.setdefault(identity.decode(), []).append(int(entry))
    return {identity: tuple(sorted(pids)) for identity, pids in found.items()}


def carries(pid: int, container: str) -> bool:
    """True when this machine sees the process and it carries the container's id."""
    try:
        return container.encode() in _ids_of(pid, PROC)
    except OSError:
        return False


def end(container: str) -> tuple[int, ...]:
    """End every process that carries this id, and see them and their cgroups gone; gives the pids that were ended.

    Raises:
        RemainsAlive: some are still there, because they belong to another user or do not die.
    """
    until = time.monotonic() + END_S
    ended: set[int] = set()
    cgroups: set[Path] = set()
    while pids := find({container}).get(container, ()):
        ended.update(pids)
        for pid in pids:
            cgroups.update(directories_of(pid, container))
        gone = [_end(pid, container, until) for pid in pids]
        if not all(gone):
            left = [str(pid) for pid, is_gone in zip(pids, gone, strict=True) if not is_gone]
            raise RemainsAlive(
                f"processes of container {container[:12]} live on without it: {', '.join(left)}.",
                fix="End them as root: `cloche cells reap` does.",
            )
    for path in cgroups:
        with suppress(OSError):
            path.rmdir()  # an engine that forgot the container forgets its cgroup too; one with a process in it stays
    return tuple(sorted(ended))


def _end(pid: int, container: str, until: float) -> bool:
    """Kill one process through a descriptor of it, so that nobody else who got its number is hit."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return True
    try:
        if container.encode() not in _ids_of(pid, PROC):
            return True  # the number was given to somebody else since it was found
        thaw(pid, container)
        with suppress(PermissionError):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            return bool(poll.poll(max(0.0, until - time.monotonic()) * 1000))
        return False
    except ProcessLookupError:
        return True
    finally:
        os.close(descriptor)


def _ids_of(pid: int, proc: Path) -> set[bytes]:
    """The container ids that a living process carries."""
    base = f"{proc}/{pid}/"
    try:
        carried = set(_ID.findall(_read(base + "cgroup")))
        line = _read(base + "cmdline")
        if line.partition(b"\0")[0].rpartition(b"/")[2].decode("ascii", "replace").startswith(RUNTIMES):
            carried.update(_ID.findall(line))
        if carried and _read(base + "stat").rpartition(b")")[2].split()[0] in (b"Z", b"X"):
            return set()
    except OSError:
        return set()
    return carried


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 64 * 1024)
    finally:
        os.close(descriptor)
