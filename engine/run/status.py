"""Statuses of a run."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """What a run is; every one but `running` and `completed` comes with a reason."""

    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    CAPPED = "capped"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"


FINAL = frozenset({Status.COMPLETED, Status.CANCELLED})
"""Never left again; the others go on with a resume."""
