"""Taking turns: each round does every action once, one after the other, so that drift meets them all alike."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

Action = Callable[[], object]


def interleaved(*actions: Action, rounds: int, warm: int = 1) -> list[list[float]]:
    """Seconds of each action in each of `rounds` rounds, after `warm` rounds that do not count."""
    taken: list[list[float]] = [[] for _ in actions]
    for number in range(warm + rounds):
        for action, seconds in zip(actions, taken, strict=True):
            took = timed(action)
            if number >= warm:
                seconds.append(took)
    return taken


def timed(action: Action) -> float:
    """Seconds of one call; a collection that is due anyway happens before and not in it."""
    gc.collect()
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun
