"""Thawing: a process in a frozen cgroup does not die of SIGKILL, and an engine that did not freeze it does not know why.

Somebody on the host froze the cell (`docker pause`, or the freezer's file); a cell cannot do it to itself. Done right before a
kill only. Touches nothing but the cgroup that carries the container's id, never a parent of it.
"""

from __future__ import annotations

from pathlib import Path

from engine.sandbox.cgroup import ROOT, paths_of

LEGACY = ("freezer", "freezer.state", "THAWED")
UNIFIED = ("", "cgroup.freeze", "0")


def thaw(pid: int, container: str, *, root: Path = ROOT, proc: Path = Path("/proc")) -> bool:
    """Thaw the container's own cgroup, found through one of its processes; True when it was frozen and no longer is.

    False as well where this machine does not see the cgroup or this user may not write to it.
    """
    try:
        paths = paths_of((proc / str(pid) / "cgroup").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return any([_thaw(paths, container, root, *LEGACY), _thaw(paths, container, root, *UNIFIED)])


def _thaw(paths: dict[str, str], container: str, root: Path, controller: str, name: str, running: str) -> bool:
    path = paths.get(controller, "")
    if container not in path.rpartition("/")[2]:
        return False
    mounted = root / (controller or ("unified" if (root / "unified").is_dir() else ""))
    try:
        file = mounted / path.lstrip("/") / name
        if file.read_text(encoding="ascii").strip() in (running, ""):
            return False
        file.write_text(running, encoding="ascii")
    except OSError:
        return False
    return True
