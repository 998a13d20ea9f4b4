"""`parallel` and `pipeline`: branches of one program that wait for their calls at the same time.

At most 16 jobs of one of them run at once; a strand that has finished one takes the next. The strands are started by the
caller, which waits until all are done; where no more may be started the caller does the jobs itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from contextvars import Context, copy_context
from itertools import islice
from types import FrameType
from typing import Any, Final

from cloche import _call, _scopes
from cloche._strands import Stopped, Strand, Strands

AT_ONCE: Final = 16
ITEMS: Final = 4_096


def parallel(thunks: Iterable[Callable[[], Any]], *, fail_fast: bool = True) -> list[Any]:
    """Run functions without arguments as branches that wait for their calls at the same time; their values in this order.

    At most 4,096 thunks, of which 16 run at once, and 96 branches of a program altogether. Only one branch runs code at any
    moment: it goes on until it waits. A thunk may return an awaitable, which is then run to its end in that branch. Branches may
    use `parallel` and `pipeline` themselves.

    With `fail_fast` the first failure stops the others where they wait (their calls are dropped), and is raised when all have
    ended. Without it every branch runs to its end, and the list holds the exception in place of the value of one that failed.

    Raises:
        TypeError: a thunk is not callable. ValueError: more than 4,096. RuntimeError: there is no run and no gate.
    """
    jobs = _listed(thunks, "parallel")
    for job in jobs:
        if not callable(job):
            raise TypeError(f"parallel() takes functions without arguments, not {type(job).__name__}")
    return _Fan("parallel", jobs, fail_fast=fail_fast, frame=sys._getframe(1)).run()


def pipeline(items: Iterable[Any], *stages: Callable[[Any], Any], fail_fast: bool = True) -> list[Any]:
    """Send every item through the stages on its own; the values of the last stage in the order of the items.

    The first stage gets the item, every other one the value of the stage before. No item waits for another one between two
    stages. Bounds, awaitables (a stage may return one) and `fail_fast` are as for `parallel`; each item is a branch.

    Raises:
        TypeError: a stage is not callable. ValueError: more than 4,096 items. RuntimeError: there is no run and no gate.
    """
    for stage in stages:
        if not callable(stage):
            raise TypeError(f"pipeline() takes functions of one argument as stages, not {type(stage).__name__}")

    def through(item: Any) -> Any:
        for stage in stages:
            item = _awaited(stage(item))
        return item

    def job(item: Any) -> Callable[[], Any]:
        return lambda: through(item)

    jobs = [job(item) for item in _listed(items, "pipeline")]
    return _Fan("pipeline", jobs, fail_fast=fail_fast, frame=sys._getframe(1)).run()


def _listed(given: Iterable[Any], name: str) -> list[Any]:
    listed = list(islice(given, ITEMS + 1))
    if len(listed) > ITEMS:
        raise ValueError(f"{name}() takes at most {ITEMS} at a time")
    return listed


class _Fan:
    """The branches of one `parallel` or `pipeline`."""

    def __init__(self, name: str, jobs: Sequence[Callable[[], Any]], *, fail_fast: bool, frame: FrameType) -> None:
        self._strands: Strands = _call.strands_for(name)
        self._jobs = jobs
        self._fail_fast = fail_fast
        self._results: list[Any] = [None] * len(jobs)
        self._taken = 0
        self._members: list[Strand] = []
        self._working = 0
        self._failure: BaseException | None = None
        self._caller = self._strands.current
        self._context = copy_context()
        self._around = _scopes.current()
        self._name = f"{name}@{_scopes.place(frame)}"
        self._package, self._site = _scopes.opener(frame, self._around)
        self._number = self._around.number(self._name) if jobs else 0

    def run(self) -> list[Any]:
        """All jobs; their values.

        Raises:
            BaseException: the first failure, when every branch has ended.
        """
        try:
            for _ in range(min(AT_ONCE, len(self._jobs), self._strands.room)):
                self._members.append(self._strands.start(self._work))
                self._working += 1
            if not self._members:
                self._work_here()
        except RuntimeError as error:
            self._fail(error)
        while self._working:
            try:
                self._strands.park()
            except BaseException as error:
                self._fail(error)
        if self._failure is not None:
            raise self._failure
        return self._results

    def _work(self) -> None:
        self._take_jobs()
        self._working -= 1
        if not self._working:
            self._strands.wake(self._caller)

    def _work_here(self) -> None:
        """In the caller's own strand, outside the loop that may run in it."""
        asyncio = sys.modules.get("asyncio")
        loop = asyncio._get_running_loop() if asyncio is not None else None
        self._members.append(self._caller)
        if asyncio is not None and loop is not None:
            asyncio._set_running_loop(None)
        try:
            self._take_jobs()
        finally:
            if asyncio is not None and loop is not None:
                asyncio._set_running_loop(loop)

    def _take_jobs(self) -> None:
        while self._taken < len(self._jobs) and self._failure is None:
            i = self._taken
            self._taken += 1
            self._one(i, self._strands.current)

    def _one(self, i: int, strand: Strand) -> None:
        stops = strand.stops
        try:
            self._results[i] = self._branch(i).run(_run_branch, self._jobs[i])
        except Stopped as error:
            if error.fan is self:
                strand.stops = stops  # ends here: a loop around this strand's own job is not meant
            else:
                self._fail(error)
        except Exception as error:
            if self._fail_fast:
                self._fail(error)
            else:
                self._results[i] = error
        except BaseException as error:
            self._fail(error)

    def _branch(self, i: int) -> Context:
        context = self._context.copy()
        scope = self._around.child(self._name, number=self._number, item=i + 1, package=self._package, site=self._site)
        context.run(_scopes.current_scope.set, scope)
        return context

    def _fail(self, error: BaseException) -> None:
        first = self._failure is None
        if first or (isinstance(error, Stopped) and error.fan is not self):
            self._failure = error
        if not first:
            return
        current = self._strands.current
        for strand in self._members:
            waiting = strand.error  # an outer one has stopped it already, and goes further
            outer = isinstance(waiting, Stopped) and waiting.fan._around.depth < self._around.depth
            if strand is not current and not outer:
                self._strands.interrupt(strand, Stopped(self))


def _run_branch(job: Callable[[], Any]) -> Any:
    return _awaited(job())


def _awaited(value: Any) -> Any:
    if not hasattr(type(value), "__await__"):
        return value
    import asyncio

    return asyncio.run(run_awaitable(value))


async def run_awaitable(value: Any) -> Any:
    """The value of an awaitable that a branch gave; stands in the branch's own scope."""
    return await value


_scopes.boundaries.add(_run_branch.__code__)
