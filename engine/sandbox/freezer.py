"""Thawing: a process in a frozen cgroup does not die of SIGKILL, and an engine that did not freeze it does not know why.

Somebody on the host froze the cell (`docker pause`, or the freezer's file) or stopped its first process; a cell can do neither to
itself. Done right before a kill only. Touches nothing but the cgroup that carries the container's id, never a parent of it.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from engine.sandbox.cgroup import ROOT, paths_of

LEGACY = ("freezer", "freezer.state", "THAWED")
UNIFIED = ("", "cgroup.freeze", "0")


def thaw(pid: int, container: str) -> bool:
    """Thaw the container's own cgroup, found through one of its processes; True when it was frozen and no longer is.

    False as well where this machine does not see the cgroup or this user may not write to it.
    """
    try:
        paths = paths_of(Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return any([_thaw(paths, container, *LEGACY), _thaw(paths, container, *UNIFIED)])


def end_stopped(pid: int, container: str) -> bool:
    """Kill the container's first process if it was stopped (SIGSTOP); False where it runs, or is not visible from here or not ours.

    gVisor is killed by asking it: its runtime speaks to the sandbox, and a stopped one never answers, so that the engine's kill
    hangs for as long as its caller waits (runsc 20221219). Letting it go on first would let its program go on, too.
    """
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:  # nor is there a process 0, which an engine tells of a container that does not run
        return False
    try:
        # looked at while the descriptor is held, so that the number cannot have passed to somebody else in between
        paths = paths_of(Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8"))
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
        if state != "T" or not any(container in path.rpartition("/")[2] for path in paths.values()):
            return False
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except (OSError, ValueError):
        return False
    finally:
        os.close(descriptor)
    return True


def _thaw(paths: dict[str, str], container: str, controller: str, name: str, running: str) -> bool:
    path = paths.get(controller, "")
    if container not in path.rpartition("/")[2]:
        return False
    mounted = ROOT / (controller or ("unified" if (ROOT / "unified").is_dir() else ""))
    try:
        file = mounted / path.lstrip("/") / name
        if file.read_text(encoding="ascii").strip() in (running, ""):
            return False
        file.write_text(running, encoding="ascii")
    except OSError:
        return False
    return True
