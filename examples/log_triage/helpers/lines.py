"""One line of a log: time, level, component and message, in either of the two spellings."""

import json
import re
from datetime import UTC, datetime

MARKS = ("ERROR", "CRITICAL", "FATAL")
TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,6})?(?:Z|[+-]\d\d:?\d\d)?"
HEAD = re.compile(rf"({TIME})\s+\[?([A-Z]+)\]?\s+\[?([\w.\-/]+)\]?:?\s+(.*)", re.DOTALL)
MESSAGE = 2_000


def parse_line(line):
    """`(moment, level, component, message)` of an error line; None for every other line."""
    if line.startswith("{"):
        return _from_json(line)
    found = HEAD.fullmatch(line)
    if found is None:
        return None
    stamp, level, component, message = found.groups()
    return _record(stamp, level, component, message)


def looks_like_head(line):
    """Whether a line that gave no record claims to be an error: it starts at the margin and its level stands early."""
    if line.startswith("{"):
        return any(f'"{mark}"' in line[:200] for mark in MARKS)
    words = line[:80].split()[:3]
    return not line[:1].isspace() and any(word.strip("[]:") in MARKS for word in words)


def _from_json(line):
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    parts = [entry.get(name) for name in ("ts", "level", "logger", "msg")]
    return _record(*parts) if all(isinstance(part, str) for part in parts) else None


def _record(stamp, level, component, message):
    if level not in MARKS:
        return None
    try:
        moment = datetime.fromisoformat(stamp.replace(",", "."))
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.astimezone(UTC), level, component, message[:MESSAGE]
