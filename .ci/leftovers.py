"""What an engine of ours leaves behind when it dies hard: processes, mounts, cgroups, pid files. Standard library only.

Nothing is ended for its name alone: a process is ours when its command line names our run directory, when it is in the cgroup
of our containers, or when its parent is one of those.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from places import Place
from processes import kill, living, stat_fields, wait_until

CGROUPS = Path("/sys/fs/cgroup")
HELPERS = (b"containerd", b"runsc", b"runc")
"""A failed start of gVisor leaves its shim, `runsc-gofer` and `runsc-sandbox`; each names the run directory."""


def belonging(place: Place) -> list[int]:
    """Pids: first the programs in containers, then the helpers that keep them."""
    everyone = living()
    helpers = [pid for pid in everyone if _is_helper(pid, place)]
    programs = [pid for pid in everyone if pid not in helpers and (_parent(pid) in helpers or _confined(pid, place))]
    return programs + helpers


def _is_helper(pid: int, place: Place) -> bool:
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    program = line.split(b"\0")[0].rpartition(b"/")[2]
    return program.startswith(HELPERS) and f"{place.run}/".encode() in line


def _parent(pid: int) -> int:
    found = stat_fields(pid)
    return 0 if found is None else found[2]


def _confined(pid: int, place: Place) -> bool:
    try:
        text = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return any(line.split(":", 2)[2].startswith(f"{place.cgroup}/") for line in text.splitlines())


def sweep(place: Place) -> None:
    """Ends what a dead engine left running. Only for when the engine itself is known to be gone."""
    wait_until(lambda: not _kill_once(place), 5)
    # A new engine takes a zombie containerd for a living one, waits 15 s for it and gives up.
    place.containerd_pidfile.unlink(missing_ok=True)
    place.pidfile.unlink(missing_ok=True)
    # A dead process that its parent has not collected yet keeps its cgroup.
    wait_until(lambda: not drop_cgroups(place), 5)


def _kill_once(place: Place) -> list[int]:
    """One round: a helper may start another process while it is being killed, and a frozen one dies only when thawed."""
    found = belonging(place)
    if found:
        thaw(place)
    for pid in found:
        kill(pid, signal.SIGKILL)
    return found


def thaw(place: Place) -> None:
    """Let frozen containers go on; SIGKILL waits for that where cgroups are of version 1."""
    for root in _cgroup_roots():
        top = root / place.cgroup.lstrip("/")
        states = [*top.glob("*/freezer.state"), *top.glob("*/cgroup.freeze")]
        for state in states:
            try:
                state.write_text("0" if state.name == "cgroup.freeze" else "THAWED", encoding="ascii")
            except OSError:
                pass


def drop_cgroups(place: Place) -> list[Path]:
    """Remove the emptied cgroups that nobody else will; those that are still in use."""
    left = []
    for root in _cgroup_roots():
        top = root / place.cgroup.lstrip("/")
        for directory, _, _ in os.walk(top, topdown=False):
            try:
                Path(directory).rmdir()
            except FileNotFoundError:
                pass
            except OSError:
                left.append(Path(directory))
    return left


def _cgroup_roots() -> list[Path]:
    try:
        return [CGROUPS, *(entry for entry in CGROUPS.iterdir() if entry.is_dir() and not entry.is_symlink())]
    except OSError:
        return []


def unmount(place: Place) -> None:
    """Undoes the mounts that an engine leaves on and below its directories; the deepest goes first."""
    with Path("/proc/self/mountinfo").open(encoding="utf-8", errors="replace") as table:
        points = [line.split()[4] for line in table]
    ours = [p for p in points if any(p == str(d) or p.startswith(f"{d}/") for d in (place.data, place.run))]
    for point in sorted(ours, key=len, reverse=True):
        subprocess.run(["umount", "--lazy", point], check=False, stderr=subprocess.DEVNULL)
