"""Log events: a constant name with bound values, one per change of state, as a line on stderr. The only user of structlog.

Secrets, prompts and what a cell puts out are no values of an event. structlog is loaded with the first event that is shown:
it takes longer to load than most commands take to run.
"""

from __future__ import annotations

import sys
from typing import Any, Final, Literal

Level = Literal["debug", "info", "warning", "error"]

_LEVELS: Final[dict[Level, int]] = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class _Shown:
    """The least level that is shown in this process."""

    least: int = _LEVELS["warning"]


def show_from(level: Level) -> None:
    """Show events of this level and above from now on; without it, warnings and errors."""
    _Shown.least = _LEVELS[level]


def info(event: str, **bound: Any) -> None:
    """Something went its usual way."""
    _tell("info", event, bound)


def warning(event: str, **bound: Any) -> None:
    """Something went another way than usual, and Cloche goes on."""
    _tell("warning", event, bound)


def _tell(level: Level, event: str, bound: dict[str, Any]) -> None:
    if _LEVELS[level] < _Shown.least:
        return
    import structlog

    logger = structlog.wrap_logger(
        structlog.PrintLogger(sys.stderr),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(0),
    )
    getattr(logger, level)(event, **bound)
