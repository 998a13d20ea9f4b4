"""The asyncio loop of a program: tasks go on in the order in which their answers came, and in no other way.

It has no sockets, processes or threads; its timers are recorded calls, its clock is the program's, and it waits as a strand
does. `asyncio` itself is the standard library's. Imported only once the program imports asyncio, which takes as long as
starting five interpreters.
"""

from __future__ import annotations

import asyncio
import math
import sys
from _thread import get_ident
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any, Final, NoReturn

from cloche import _call, _created, _fan, _scopes
from cloche._created import AsyncGenerators, Future, Task
from cloche._strands import Pending


class _Answer(Future):
    """The answer to a call that a coroutine waits for; cancelling it drops the call."""

    _pending: Pending | None = None
    _calls: _Calls

    def arrived(self) -> None:
        """The answer is there."""
        assert self._pending is not None
        self._calls.forget(self._pending)
        self.get_loop().call_soon(self._settle)

    def cancel(self, msg: Any = None) -> bool:
        """As Future.cancel."""
        cancelled = super().cancel(msg)
        if cancelled and self._pending is not None:
            self._calls.drop(self._pending)
        return cancelled

    def _settle(self) -> None:
        assert self._pending is not None
        if self.done():
            return
        try:
            value = self._pending.result()
        except BaseException as error:
            self.set_exception(error)
        else:
            self.set_result(value)


class _Timer(asyncio.TimerHandle):
    """A callback that a recorded call of kind timer wakes."""

    __slots__ = ("pending",)

    pending: Pending | None

    def arrived(self) -> None:
        """Its time has come."""
        loop: Any = self._loop  # type: ignore[attr-defined]
        loop._calls.forget(self.pending)
        loop._add(self)

    def _run(self) -> None:
        if self.pending is not None:
            self.pending.result()
        super()._run()


class _Calls:
    """Calls of one loop that are unanswered."""

    def __init__(self, backend: _call.WaitingBackend) -> None:
        self._backend = backend
        self._open: dict[Pending, None] = {}

    def begin(self, fn: str, arguments: dict[str, Any], **more: Any) -> Pending:
        """Make a call."""
        pending = self._backend.begin(fn, arguments, **more)
        self._open[pending] = None
        return pending

    def forget(self, pending: Pending) -> None:
        """It is answered."""
        self._open.pop(pending, None)

    def drop(self, pending: Pending) -> None:
        """Nobody waits for it any more, unless it is answered."""
        if pending in self._open:
            del self._open[pending]
            self._backend.drop(pending)

    def drop_all(self) -> None:
        """The loop is closed."""
        for pending in list(self._open):
            self.drop(pending)


class Loop(asyncio.BaseEventLoop):
    """A loop of a program whose calls `backend` answers."""

    def __init__(self, backend: _call.WaitingBackend) -> None:
        super().__init__()
        self._backend = backend
        self._strands = backend.strands
        self._strand = backend.strands.current
        self._calls = _Calls(backend)
        self._asyncgens = AsyncGenerators()

    # what is new

    def call(self, fn: str, arguments: dict[str, Any], **more: Any) -> Future:
        """Make a call; its answer as a future."""
        answer = _Answer(loop=self)
        answer._calls = self._calls
        answer._pending = self._calls.begin(fn, arguments, waiter=answer, **more)
        return answer

    def time(self) -> float:
        """Seconds on the program's own clock: it stands still while code runs."""
        return self._backend.monotonic()

    def _run_once(self) -> None:
        ready: Any = self._ready  # type: ignore[attr-defined]
        if not ready and not self._stopping:  # type: ignore[attr-defined]
            self._strand = self._strands.current
            self._strands.park(looping=True)
        strand = self._strands.current
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                stops = strand.stops
                handle._run()
                if strand.stops != stops and strand.stopped is not None:
                    raise strand.stopped  # a task may have kept it to itself; the branch ends all the same

    def _add(self, handle: asyncio.Handle) -> None:
        self._ready.append(handle)  # type: ignore[attr-defined]
        self._strands.wake_loop(self._strand)

    def _call_soon(self, callback: Any, args: Any, context: Context | None) -> asyncio.Handle:
        handle: asyncio.Handle = super()._call_soon(callback, args, context)  # type: ignore[misc]
        self._strands.wake_loop(self._strand)
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """As call_soon; there are no threads."""
        if get_ident() != self._strands.ident:
            _refuse("threads")
        return self.call_soon(callback, *args, context=context)

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As asyncio's; the delay, rounded to microseconds, is a recorded call."""
        self._check_closed()  # type: ignore[attr-defined]
        delay_s = float(delay)
        delay_s = round(delay_s, 6) if math.isfinite(delay_s) else delay_s
        if math.isnan(delay_s):
            raise ValueError("a delay is a number of seconds, not NaN")
        timer = _Timer(self.time() + delay_s, callback, args, self, context)
        timer.pending = None
        if delay_s <= 0:
            self._add(timer)
        elif delay_s != math.inf:
            where = _call.site(sys._getframe(1))
            timer.pending = self._calls.begin(
                "timer", {"delay_s": delay_s}, label="", site=where, phase=list(_call.open_phases.get()), waiter=timer
            )
        return timer

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As asyncio's, on this loop's clock."""
        return self.call_later(when - self.time(), callback, *args, context=context)

    def _timer_handle_cancelled(self, handle: Any) -> None:
        if handle.pending is not None:
            self._calls.drop(handle.pending)

    def close(self) -> None:
        """As asyncio's; nobody waits for its calls any more."""
        self._calls.drop_all()
        super().close()

    def create_future(self) -> Future:
        """A future of this loop."""
        return Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Any, *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        """As asyncio's; the task stands in a scope of its own, named after the function that makes it."""
        self._check_closed()  # type: ignore[attr-defined]
        if getattr(coro, "cr_code", None) not in _UNSCOPED:
            context = _task_context(context)
        factory = self.get_task_factory()
        if factory is not None:
            made: Any = factory(self, coro, context=context)  # type: ignore[call-arg]
            return made  # type: ignore[no-any-return]
        return Task(coro, loop=self, name=name, context=context)

    # what does not exist

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> NoReturn:  # type: ignore[override]
        """Refused: threads have no order."""
        _refuse("threads (run_in_executor, to_thread)")

    def _process_events(self, event_list: Any) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody else could wake it."""


def _refuse(what: str) -> NoReturn:
    raise RuntimeError(
        f"the loop of a run has no {what}: their order could not be repeated. "
        "Use calls, parallel(), pipeline() and asyncio's tasks."
    )


def _refusing(what: str) -> Callable[..., NoReturn]:
    def refused(*_args: Any, **_kwargs: Any) -> NoReturn:
        _refuse(what)

    return refused


_MISSING: Final = {
    "processes": ("subprocess_exec", "subprocess_shell"),
    "signals": ("add_signal_handler", "remove_signal_handler"),
    "pipes": ("connect_read_pipe", "connect_write_pipe"),
    "sockets": (
        *("create_connection", "create_server", "create_unix_connection", "create_unix_server", "start_tls"),
        *("create_datagram_endpoint", "connect_accepted_socket", "getaddrinfo", "getnameinfo", "sendfile"),
        *("sock_recv", "sock_recv_into", "sock_recvfrom", "sock_recvfrom_into", "sock_sendall", "sock_sendto"),
        *("sock_connect", "sock_accept", "sock_sendfile", "add_reader", "add_writer", "remove_reader", "remove_writer"),
    ),
}
for _what, _names in _MISSING.items():
    for _name in _names:
        setattr(Loop, _name, _refusing(_what))

_UNSCOPED: Final = {
    None,  # closing of an asynchronous generator, at a moment that nobody chose
    _fan.run_awaitable.__code__,
    asyncio.BaseEventLoop.shutdown_asyncgens.__code__,
    asyncio.BaseEventLoop.shutdown_default_executor.__code__,
}
"""Code of coroutines whose tasks open no scope: the program did not make them."""

_scopes.boundaries.add(Loop._run_once.__code__)


def _task_context(context: Context | None) -> Context:
    frame = sys._getframe(2)
    around = _scopes.current()
    package, site = _scopes.opener(frame, around)
    scope = around.child(f"task@{_scopes.place(frame)}", package=package, site=site)
    # A context that was given is left as it is: others may run in it.
    context = copy_context() if context is None else context.copy()
    context.run(_scopes.current_scope.set, scope)
    return context


def running(name: str) -> Loop:
    """The loop that runs in this strand.

    Raises:
        RuntimeError: none does, or it is another kind of loop.
    """
    loop = asyncio._get_running_loop()
    if not isinstance(loop, Loop):
        raise RuntimeError(f"{name}() is awaited in a coroutine that asyncio.run() runs, inside a run or a script")
    return loop


class _Policy(asyncio.DefaultEventLoopPolicy):
    """Gives loops of ours while calls are answered, the usual ones otherwise."""

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        backend = _call.waiting()
        return super().new_event_loop() if backend is None else Loop(backend)


def _selected(*_args: Any) -> asyncio.AbstractEventLoop:
    """The loop that a program makes by name."""
    return asyncio.new_event_loop()


def install() -> Callable[[], None]:
    """Have asyncio make loops of ours from now on, counting tasks from the first; gives what takes that back."""
    order_back = _created.install(Loop)
    policy, selector = asyncio.get_event_loop_policy(), asyncio.SelectorEventLoop
    asyncio.set_event_loop_policy(_Policy())
    asyncio.SelectorEventLoop = _selected  # type: ignore[assignment]

    def take_back() -> None:
        asyncio.set_event_loop_policy(policy)
        asyncio.SelectorEventLoop = selector
        order_back()

    return take_back
