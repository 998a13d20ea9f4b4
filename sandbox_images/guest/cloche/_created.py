"""Order of creation where asyncio has none: it keeps tasks, futures and generators in sets, which are in order of their addresses.

Imported with the loop alone.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import weakref
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any

_order = itertools.count(1)


def _hash(self: Any) -> int:
    """The order of creation, so that sets of tasks and futures are walked through in the same order every time."""
    try:
        return self._cloche_order  # type: ignore[no-any-return]
    except AttributeError:
        self._cloche_order = made = next(_order)
        return made


class Future(asyncio.Future[Any]):
    """asyncio's, with a hash that does not depend on where it lies in memory."""

    __hash__ = _hash


class Task(asyncio.Task[Any]):
    """asyncio's, with a hash that does not depend on where it lies in memory."""

    __hash__ = _hash


class AsyncGenerators:
    """Open asynchronous generators, in the order in which they were begun; a WeakSet would give them by address."""

    def __init__(self) -> None:
        self._open: dict[int, weakref.ref[Any]] = {}

    def add(self, generator: Any) -> None:
        """It is begun."""
        self._open[id(generator)] = weakref.ref(generator)

    def discard(self, generator: Any) -> None:
        """It is over."""
        self._open.pop(id(generator), None)

    def clear(self) -> None:
        """All are."""
        self._open.clear()

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __iter__(self) -> Iterator[Any]:
        return iter([one for one in (ref() for ref in self._open.values()) if one is not None])


def install(loop_type: type[asyncio.AbstractEventLoop]) -> Callable[[], None]:
    """Have asyncio's functions go by creation in loops of this type, counting from the first; gives what takes that back."""
    global _order
    _order = itertools.count(1)
    tasks: Any = asyncio.tasks
    runners: Any = asyncio.runners
    tasks._GatheringFuture.__hash__ = _hash
    usual_as_completed, usual_cancel = tasks.as_completed, runners._cancel_all_tasks

    def as_completed(fs: Iterable[Any], *, timeout: float | None = None) -> Iterator[Coroutine[Any, Any, Any]]:
        """asyncio's, which would make the tasks in the order in which coroutines lie in memory."""
        if isinstance(asyncio._get_running_loop(), loop_type) and not (asyncio.isfuture(fs) or asyncio.iscoroutine(fs)):
            fs = [asyncio.ensure_future(one) for one in dict.fromkeys(fs)]
        made: Iterator[Coroutine[Any, Any, Any]] = usual_as_completed(fs, timeout=timeout)
        return made

    def cancel_all_tasks(loop: asyncio.AbstractEventLoop) -> None:
        (_cancel_all_tasks if isinstance(loop, loop_type) else usual_cancel)(loop)

    def take_back() -> None:
        tasks.as_completed = asyncio.as_completed = usual_as_completed
        runners._cancel_all_tasks = usual_cancel

    tasks.as_completed = asyncio.as_completed = as_completed  # type: ignore[assignment]
    runners._cancel_all_tasks = cancel_all_tasks
    return take_back


def _cancel_all_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """What asyncio.run() does at its end, in order of creation; tasks of a program's own kind come last.

    asyncio's own takes them as they lie in its WeakSet, and where that is depends on all tasks that were ever in it.
    """
    left = sorted(asyncio.all_tasks(loop), key=lambda task: getattr(task, "_cloche_order", math.inf))
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
    for task in left:
        if not task.cancelled() and (error := task.exception()) is not None:
            message = "unhandled exception during asyncio.run() shutdown"
            loop.call_exception_handler({"message": message, "exception": error, "task": task})
