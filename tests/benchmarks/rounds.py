"""Taking turns: each round does every action once, one after the other, so that drift meets them all alike."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

Action = Callable[[], object]


class Told(float):
    """Seconds that an action measured itself, in another process or of a part of it; they count instead of those of the call."""


def interleaved(*actions: Action, rounds: int, warm: int = 1, before: Action | None = None) -> list[list[float]]:
    """Seconds of each action in each of `rounds` rounds, after `warm` rounds that do not count; `before` each round is not timed."""
    taken: list[list[float]] = [[] for _ in actions]
    for number in range(warm + rounds):
        if before is not None:
            before()
        for action, seconds in zip(actions, taken, strict=True):
            took = timed(action)
            if number >= warm:
                seconds.append(took)
    return taken


def timed(action: Action) -> float:
    """Seconds of one call; a collection that is due anyway happens before and not in it."""
    gc.collect()
    begun = time.perf_counter()
    given = action()
    took = time.perf_counter() - begun
    return float(given) if isinstance(given, Told) else took
