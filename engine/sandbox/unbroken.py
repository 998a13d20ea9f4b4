"""Blocking work in a thread that is waited for, whatever cancels the task that waits.

A cancel scope can be shielded from; `Task.cancel`, which is what Ctrl-C does under `asyncio.run`, cannot. It would end the wait
while the thread goes on: nobody would know what the thread acquired, and a second try would meet the first one's half-done work.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

import anyio
import anyio.to_thread

T = TypeVar("T")


class Once(Generic[T]):
    """Work that is done once, however many threads come to do it; those that come meanwhile wait."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._outcome: Future[T] = Future()

    @property
    def is_done(self) -> bool:
        """True when `outcome` has something to tell."""
        return self._outcome.done()

    def do(self) -> None:
        """Do it, or wait for whoever does. Raises nothing of the work's."""
        with self._lock:
            if self.is_done:
                return
            try:
                self._outcome.set_result(self._work())
            except BaseException as error:  # noqa: BLE001 - handed on to everybody who asks for the outcome
                self._outcome.set_exception(error)

    def outcome(self) -> T:
        """What the work gave. Raises what it raised."""
        return self._outcome.result()


async def carried_out(work: Once[T]) -> T:
    """What the work gives, from a thread. Cancelling does not end the wait.

    It is due at the next await after it; unless this is clean-up after a cancellation, which another one says nothing new to.
    """
    cut_off = False
    with anyio.CancelScope(shield=True):
        while not work.is_done:
            try:
                await anyio.to_thread.run_sync(work.do)
            except asyncio.CancelledError:
                cut_off = True
    if cut_off and not isinstance(sys.exc_info()[1], asyncio.CancelledError):
        _cancel_anew()
    return work.outcome()


def _cancel_anew() -> None:
    """Make a cancellation that was held back due again; the number of requests stays, for who counts them."""
    task = asyncio.current_task()
    assert task is not None
    task.uncancel()
    task.cancel()
