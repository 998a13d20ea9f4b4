"""What is done for cells off the path of whoever runs a job: removing used ones, filling the pool, reaping dead ones.

In a process that goes on, a thread or two do it. A command that ends does not wait for it: what is left when it ends is handed to
a process of its own, which does the same and ends (`engine.housekeeping`). A handed-over cell is simply left: with its
lock free it is the reaper's, which that process calls first.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from engine import log
from engine.errors import ClocheError
from engine.proc import start_detached
from engine.sandbox import pool, tally
from engine.sandbox.launch import Wish
from engine.settings import inherited_environment

if TYPE_CHECKING:
    from engine.sandbox.service import Sandbox

WORKERS = 2
AT_ONCE_S, LATER_S = 0.01, 0.3
"""Work begins when a job's result is in hand, since both want the same processors: `AT_ONCE_S` after a cell was used, and no later
than `LATER_S` after it was taken, when the job takes longer. A command does nothing before `LATER_S`: a short one hands all over."""


@dataclass
class _Work:
    due: float
    do: Callable[[], Any]
    leave: Callable[[], object] | None = None
    wish: Wish | None = None


class Keeper:
    """The work of one process. `handing_over`: the process is a command, which may end before the work is done."""

    def __init__(self, sandbox: Sandbox, *, handing_over: bool = False) -> None:
        self._sandbox = sandbox
        self._handing_over = handing_over
        self._delay_s = LATER_S if handing_over else AT_ONCE_S
        self._queue: list[_Work] = []
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._busy = 0
        self._closing = False
        self._counts: dict[str, int] = {}

    def remove(self, remove: Callable[[], object], *, leave: Callable[[], object]) -> None:
        """Remove what is left of a used cell; or leave it to the reaper, when this process ends before. Pending work is due too."""
        due = time.monotonic() + self._delay_s
        with self._changed:
            for work in self._queue:
                work.due = min(work.due, due)
        self._add(_Work(due, remove, leave), first=True)

    def refill(self, wish: Wish) -> None:
        """Bring the pool to its size with cells for jobs like this one."""
        with self._changed:
            pending = sum(work.wish is not None for work in self._queue)
        if pending < WORKERS:
            self._add(_Work(time.monotonic() + LATER_S, partial(self._fill, wish), wish=wish))

    def reap(self) -> None:
        """End what has no owner."""
        self._add(_Work(time.monotonic() + LATER_S, self._sandbox.reap))

    def count(self, **counts: int) -> None:
        """Add to the tally of the home, soon."""
        with self._changed:
            for name, count in counts.items():
                self._counts[name] = self._counts.get(name, 0) + count

    def settle(self) -> None:
        """Have everything done now, and return then."""
        with self._changed:
            for work in self._queue:
                work.due = 0.0
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._queue and not self._busy)

    def close(self) -> None:
        """Have everything done, or handed over; nothing may be added after that."""
        with self._changed:
            left = list(self._queue) if self._handing_over else []
            if left:
                self._queue.clear()
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        self._tell()
        for work in left:
            if work.leave is not None:
                work.leave()
        if left:
            hand_over(self._sandbox.settings.home, sorted({work.wish.kind for work in left if work.wish is not None}))

    def _add(self, work: _Work, *, first: bool = False) -> None:
        with self._changed:
            self._queue.insert(0 if first else len(self._queue), work)
            if len(self._threads) < min(WORKERS, len(self._queue) + self._busy):
                thread = threading.Thread(target=self._run, name="keeper", daemon=True)
                self._threads.append(thread)
                thread.start()
            self._changed.notify_all()

    def _run(self) -> None:
        while (work := self._next()) is not None:
            try:
                work.do()
            except (ClocheError, OSError) as error:
                log.warning("keeper.failed", error=str(error))
                self.count(failed=1)
            finally:
                self._tell()
                with self._changed:
                    self._busy -= 1
                    self._changed.notify_all()

    def _next(self) -> _Work | None:
        """The next work that is due; None when it is over."""
        with self._changed:
            while self._queue or not self._closing:
                wait_s = None
                if self._queue:
                    soonest = min(self._queue, key=lambda work: work.due)
                    wait_s = 0.0 if self._closing else soonest.due - time.monotonic()
                    if wait_s <= 0:
                        self._queue.remove(soonest)
                        self._busy += 1
                        return soonest
                self._changed.wait(wait_s)
        return None

    def _fill(self, wish: Wish) -> None:
        anyio.run(pool.fill, self._sandbox, wish)

    def _tell(self) -> None:
        with self._changed:
            counts, self._counts = self._counts, {}
        if counts:
            try:
                tally.add(self._sandbox.settings.home, **counts)
            except ClocheError as error:
                log.warning("keeper.failed", error=error.code)


def hand_over(home: Path, kinds: list[str]) -> None:
    """Start the process that reaps what was left and has cells wait for such jobs; it reads the settings as this one did.

    Raises:
        ProcessFailed: it cannot be started.
    """
    start_detached(
        [sys.executable, "-P", "-m", "engine.housekeeping", *kinds],
        env={**inherited_environment(), "CLOCHE_HOME": str(home)},
    )
