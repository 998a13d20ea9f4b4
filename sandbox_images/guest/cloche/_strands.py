"""Lines of execution of one program, of which exactly one runs at any time, so that their order is always the same.

A strand is an operating system's thread that holds the one baton. It hands it on only where it blocks: at a call, in a loop
without anything to do, or waiting for branches. Strands that can go on stand in line, first come, first served. When none can,
the program is *quiet*; only then is one reply taken, and whoever waits for it goes on. What a program sees of time and order
therefore depends on the order of the replies alone.
"""

from __future__ import annotations

from _thread import allocate_lock, get_ident, start_new_thread
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

STRANDS: Final = 96
"""Strands of one program at once, unless it may have fewer; a cell usually lets it have 128 threads and processes."""

_RUNNING, _PARKED, _READY, _ENDED = range(4)


class Deadlock(RuntimeError):
    """Everything in the program waits, and no call is unanswered: nothing could ever go on."""


class Stopped(BaseException):
    """Raised where a branch waits when another branch of `fan` has failed and nobody needs this one any more; once.

    Not an Exception, so that code that catches everything does not go on; `finally` blocks run, and may make calls.
    """

    def __init__(self, fan: Any) -> None:
        super().__init__("another branch failed")
        self.fan = fan


class Waiter(Protocol):
    """Who is told that the answer to a call is there."""

    def arrived(self) -> None:
        """The answer is there; called while everything stands still."""
        ...


class Pending:
    """A call without an answer. Backends subclass it with `result()`, which gives the answer or raises what it is."""

    __slots__ = ("answered", "number", "waiter")

    def __init__(self, number: int, waiter: Waiter) -> None:
        self.number = number
        self.waiter = waiter
        self.answered = False

    def result(self) -> Any:
        """The answer.

        Raises:
            CallError: the call failed.
        """
        raise NotImplementedError


class Source(Protocol):
    """Where answers come from."""

    def take(self) -> Pending:
        """Wait for the next answer; the call it belongs to, marked as answered.

        Raises:
            Deadlock: no call is unanswered.
        """
        ...

    def drop(self, pending: Pending) -> None:
        """Nobody waits for this answer any more."""
        ...


class Strand:
    """One line of execution. `looping`: it waits in a loop, for anything; `error` is raised where it waits.

    `stops` counts how often it was stopped, the last time by `stopped`.
    """

    __slots__ = ("_strands", "baton", "error", "ident", "looping", "state", "stopped", "stops")

    def __init__(self, strands: Strands, ident: int, state: int) -> None:
        self._strands = strands
        self.ident = ident
        self.state = state
        self.baton: Any = None
        self.error: BaseException | None = None
        self.stopped: Stopped | None = None
        self.stops = 0
        self.looping = False

    def arrived(self) -> None:
        """The answer that this strand waits for is there."""
        self._strands.wake(self)


class Strands:
    """The strands of one program, at most `limit`; the one that makes this is the first. `ident` is the running thread's."""

    def __init__(self, source: Source, *, limit: int = STRANDS) -> None:
        self.source = source
        self._limit = limit
        self.ident = get_ident()
        self.current = Strand(self, self.ident, _RUNNING)
        self.ready: deque[Strand] = deque()
        self._alive = {self.current: None}

    @property
    def room(self) -> int:
        """How many more strands can be started."""
        return self._limit - len(self._alive)

    def start(self, work: Callable[[], None]) -> Strand:
        """A strand of its own for `work`, which must raise nothing; it stands in line and runs when its turn comes.

        Raises:
            RuntimeError: the system gives no more threads.
        """
        strand = Strand(self, 0, _READY)
        strand.baton = _taken_lock()
        start_new_thread(self._main, (strand, work))
        self._alive[strand] = None
        self.ready.append(strand)
        return strand

    def wait(self, pending: Pending) -> None:
        """Let others run until `pending` is answered; it is dropped if this strand is stopped before."""
        try:
            self.park()
        except BaseException:
            if not pending.answered:
                self.source.drop(pending)
            raise

    def park(self, *, looping: bool = False) -> None:
        """Let others run until somebody wakes this strand.

        Raises:
            BaseException: what another strand raised here with `interrupt`. Deadlock: nothing can go on.
        """
        me = self.current
        me.state = _PARKED
        me.looping = looping
        following = self._next()
        if following is not me:
            if me.baton is None:
                me.baton = _taken_lock()
            self._hand_to(following)
            me.baton.acquire()
            self.current, self.ident = me, me.ident
        me.state = _RUNNING
        error = me.error
        if error is not None:
            me.error = None
            if isinstance(error, Stopped):
                me.stopped = error
                me.stops += 1
            raise error

    def wake(self, strand: Strand) -> None:
        """Put a waiting strand in line."""
        if strand.state == _PARKED:
            strand.state = _READY
            self.ready.append(strand)

    def wake_loop(self, strand: Strand) -> None:
        """Put a strand in line if it waits in a loop."""
        if strand.looping:
            self.wake(strand)

    def interrupt(self, strand: Strand, error: BaseException) -> None:
        """Raise `error` where `strand` waits, or will have waited when its turn comes."""
        strand.error = error
        self.wake(strand)

    def _next(self) -> Strand:
        ready = self.ready
        while not ready:
            try:
                self.source.take().waiter.arrived()
            except BaseException as error:  # it belongs to whoever waits, not to the strand that happened to look
                self.interrupt(self._blamed(error), error)
        return ready.popleft()

    def _blamed(self, error: BaseException) -> Strand:
        if isinstance(error, Deadlock):
            for strand in self._alive:
                if strand.looping and strand.state == _PARKED:
                    return strand
        if self.current.state == _PARKED:
            return self.current
        return next(strand for strand in self._alive if strand.state == _PARKED)

    def _hand_to(self, strand: Strand) -> None:
        if strand.baton is None:
            strand.baton = _taken_lock()
        strand.baton.release()

    def _main(self, strand: Strand, work: Callable[[], None]) -> None:
        strand.baton.acquire()
        strand.ident = self.ident = get_ident()
        self.current = strand
        strand.state = _RUNNING
        strand.error = None  # whoever stopped it before it began looks at what it does next
        work()
        strand.state = _ENDED
        del self._alive[strand]
        self._hand_to(self._next())


def _taken_lock() -> Any:
    lock = allocate_lock()
    lock.acquire()
    return lock
