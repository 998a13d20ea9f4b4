"""Counts of what the pool of a home did, kept over processes: how many cells were warm, cold, dead when taken, stale, made.

A figure for people and monitoring; nothing is decided by it, and a machine that stops may lose the last of them.
"""

from __future__ import annotations

import json
from pathlib import Path

from engine.files import lock, make_directory, write_atomic

NAMES = ("warm", "cold", "dead", "stale", "made", "failed")
FILE = "tally.json"


def read(home: Path) -> dict[str, int]:
    """All counts, 0 where nothing was counted or the file cannot be read."""
    try:
        kept = json.loads((home / "pool" / FILE).read_bytes())
    except (OSError, ValueError):
        kept = {}
    found = kept if isinstance(kept, dict) else {}
    return {name: found[name] if isinstance(found.get(name), int) else 0 for name in NAMES}


def add(home: Path, **counts: int) -> None:
    """Add to the counts.

    Raises:
        StorageFull, EngineFailure: as `engine.files.storage`.
    """
    place = make_directory(home / "pool")
    with lock(place / "tally.lock"):
        total = read(home)
        for name, count in counts.items():
            total[name] += count
        write_atomic(place / FILE, json.dumps(total).encode(), durable=False)
