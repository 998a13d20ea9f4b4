"""The labels of a cell's container: what the reaper knows a cell by when nobody remembers it. They never change."""

from __future__ import annotations

from typing import Final

from engine.sandbox.place import Intent

HOME: Final = "io.cloche.home"
"""Whose cell it is; what lacks it is none of ours."""
BOOT: Final = "io.cloche.boot"
KIND: Final = "io.cloche.kind"
CELL: Final = "io.cloche.cell"
UID: Final = "io.cloche.uid"
IDLE_UNTIL: Final = "io.cloche.idle-until"
"""Unix time, whole seconds, until which it may wait without an owner; 0 for a cell that was made for a job."""
EXPIRES: Final = "io.cloche.expires"
"""Unix time, whole seconds, after which it is the reaper's."""


def labels_of(intent: Intent, *, home_id: str) -> dict[str, str]:
    """The labels of the container that `intent` announces."""
    idle_until = 0 if intent.idle_until is None else int(intent.idle_until.timestamp())
    return {
        HOME: home_id,
        BOOT: intent.boot_id,
        KIND: intent.kind,
        CELL: intent.cell,
        UID: str(intent.uid),
        IDLE_UNTIL: str(idle_until),
        EXPIRES: str(int(intent.expires_at.timestamp())),
    }
