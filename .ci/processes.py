"""Looking at processes and waiting for them. Standard library only."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

POLL_S = 0.05


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


def living() -> list[int]:
    return [pid for entry in Path("/proc").iterdir() if entry.name.isdigit() and lives(pid := int(entry.name))]


def kill(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True
