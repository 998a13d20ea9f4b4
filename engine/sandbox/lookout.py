"""Looking for what a cell says next: how often, and when the event loop is given away meanwhile.

It polls, because notifications of files do not cross every runtime. Right after an answer it keeps the thread for up to a
millisecond, yielding the processor and then sleeping shortly: a run drives a loop of its own and has nothing else to do until the
program goes on, and a timer of the loop costs several times the round trip (0.2 ms). Otherwise it gives the loop away, for 1 to
20 ms, until something is answered. What there is to see, and what it means, is for whoever looks.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

import anyio
import anyio.lowlevel

T = TypeVar("T")

SPIN_S = 500e-6
"""So long after a reply the loop only yields the processor: the shortest sleep takes as long as a whole answer."""

HOT_S, HOT_STEP_S = 1e-3, 50e-6
IDLE_S, IDLE_MOST_S, IDLE_SHARE = 0.001, 0.02, 0.02
"""Where nothing is near, the next look is a fiftieth of the time waited so far away, within these bounds."""

YIELD_S = 0.002
"""What is there already is given without letting anything else run for so long."""


class Lookout:
    """For one cell, in one event loop; one task waits, any may `expect_more`."""

    def __init__(self) -> None:
        self._hot_until = self._yielded = 0.0
        self._answered: anyio.Event | None = None

    async def until(self, look: Callable[[], T | None], *, seconds: float) -> T | None:
        """What `look` finds, or None when it found nothing within `seconds`; it looks at least once. Raises what `look` raises."""
        since = time.perf_counter()
        until = since + seconds
        await self._let_others_run()
        while (found := look()) is None:
            now = time.perf_counter()
            if now < self._hot_until:
                if now < self._hot_until - HOT_S + SPIN_S:
                    os.sched_yield()  # 0.6 µs; a sleep of 0 s takes 70
                else:
                    time.sleep(HOT_STEP_S)
                continue
            if now >= until:
                return None
            if await self._answered_within(min(max(IDLE_S, (now - since) * IDLE_SHARE), IDLE_MOST_S, until - now)):
                since = time.perf_counter()
        return found

    def expect_more(self) -> None:
        """The program goes on: what it says next is waited for closely, also by an `until` that waits already."""
        self._hot_until = time.perf_counter() + HOT_S
        if self._answered is not None:
            self._answered.set()

    async def _answered_within(self, idle_s: float) -> bool:
        self._answered = anyio.Event()
        with anyio.move_on_after(idle_s):
            await self._answered.wait()
        return self._answered.is_set()

    async def _let_others_run(self) -> None:
        """A program that never pauses must not keep the loop from everything else, nor pay for it with every frame."""
        now = time.perf_counter()
        if now - self._yielded >= YIELD_S:
            self._yielded = now
            await anyio.lowlevel.checkpoint()
