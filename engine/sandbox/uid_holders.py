"""Who keeps the uids of cells from being claimed, for the error that says so: users and processes, from the kernel's list of locks."""

from __future__ import annotations

import os
import pwd
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

LOCKS = Path("/proc/locks")
NAMED = 3
"""Users named, and processes of each; those with the most first."""


def told(files: Iterable[Path]) -> str:
    """Words for who holds locks on these files, e.g. `128 by root (processes 12, 14), 350 by ada (process 99)`.

    A file that nobody has locked counts as held by whoever made it, since it could not be claimed: it may be no file at all, or not be
    for others. A process that is not seen from here is left out of the numbers.
    """
    pids = _pids()
    counts: Counter[str] = Counter()
    processes: dict[str, set[int]] = {}
    for path in files:
        with suppress(OSError):
            found = path.lstat()
            pid = pids.get((os.major(found.st_dev), os.minor(found.st_dev), found.st_ino), 0)
            uid = found.st_uid
            with suppress(OSError):
                uid = Path(f"/proc/{pid}").stat().st_uid if pid else uid
            counts[_name(uid)] += 1
            processes.setdefault(_name(uid), set()).update({pid} - {0})
    return ", ".join(f"{count} by {user}{_processes(processes[user])}" for user, count in counts.most_common(NAMED))


def _pids() -> dict[tuple[int, int, int], int]:
    """Who holds a lock, by device and inode of the file; nothing where the kernel does not say."""
    found = {}
    with suppress(OSError):
        for line in LOCKS.read_text(encoding="ascii").splitlines():
            words = line.split()
            if len(words) >= 6 and words[1] == "FLOCK" and words[4].isdigit():
                major, minor, inode = words[5].split(":")
                found[int(major, 16), int(minor, 16), int(inode)] = int(words[4])
    return found


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _processes(pids: set[int]) -> str:
    if not pids:
        return ""
    named = [str(pid) for pid in sorted(pids)[:NAMED]] + (["…"] if len(pids) > NAMED else [])
    return f" ({'process' if len(pids) == 1 else 'processes'} {', '.join(named)})"
