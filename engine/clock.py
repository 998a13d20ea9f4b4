"""Time enters here and is passed in: wall clock for people, monotonic clock for deadlines."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Where the host takes time from; tests inject their own."""

    def now(self) -> datetime:
        """Aware UTC time of day. May jump; never used for deadlines."""
        ...

    def monotonic_s(self) -> float:
        """Seconds that only grow; the only source of deadlines."""
        ...


@dataclass(frozen=True)
class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic_s(self) -> float:
        return time.monotonic()
