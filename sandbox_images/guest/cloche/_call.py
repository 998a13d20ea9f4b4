"""The way from a primitive to whoever answers it: one backend, installed by the worker of a cell or by a test's script.

Owns the binding of arguments, the place in the source, the open phases and the refusal of calls that come from somewhere a
recording cannot order (threads). Knows nothing of the transport, the codec or numbering: those are the backend's.
"""

from __future__ import annotations

import sys
from _thread import get_ident
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from types import FrameType
from typing import Any, Final, Protocol

from cloche import _package, _scopes
from cloche._strands import Deadlock, Pending, Strands, Waiter

open_phases: Final[ContextVar[tuple[str, ...]]] = ContextVar("cloche_phases", default=())
"""Names of the `phase()` blocks around the current code, outermost first."""


class Backend(Protocol):
    """Executes or answers calls."""

    def call(self, fn: str, arguments: dict[str, Any], *, label: str, site: str, phase: list[str]) -> Any:
        """The result of one call.

        `arguments` are bound to the signature of `fn`, values at their default and labels left out. `site` is
        `workflows/<id>/<file>:<line>` or "". `phase` lists the open phases, outermost first.

        Raises:
            CallError: the call failed.
        """
        ...


class WaitingBackend(Backend, Protocol):
    """A backend whose calls can wait beside each other; needed by branches, and by asyncio."""

    strands: Strands

    def begin(
        self,
        fn: str,
        arguments: dict[str, Any],
        *,
        label: str,
        site: str,
        phase: list[str],
        waiter: Waiter | None = None,
    ) -> Pending:
        """Make a call and give what tells its answer later, as `Backend.call` takes it; `waiter` is told then."""
        ...

    def drop(self, pending: Pending) -> None:
        """Nobody waits for this answer any more."""
        ...

    def monotonic(self) -> float:
        """Seconds on the program's own clock, which never goes back."""
        ...


class _NothingWaits:
    """Where answers come from when the backend answers every call at once."""

    def take(self) -> Pending:
        raise Deadlock("everything in the program waits, and no call is unanswered")

    def drop(self, pending: Pending) -> None:
        """There is none."""


_backend: Backend | None = None
_strands: Strands | None = None
_unscripted_hook: Callable[[str], None] | None = None


def install(backend: Backend | None) -> Backend | None:
    """Let `backend` answer every call from now on (None: nobody), made by this thread and its branches; gives the one before."""
    global _backend, _strands
    before = _backend
    _backend = backend
    _strands = None if backend is None else getattr(backend, "strands", None) or Strands(_NothingWaits())
    return before


def current() -> Backend | None:
    """The backend that answers now."""
    return _backend


def waiting() -> WaitingBackend | None:
    """The backend that answers now, if its calls can wait beside each other."""
    return _backend if hasattr(_backend, "begin") else None  # type: ignore[return-value]


def install_unscripted_hook(hook: Callable[[str], None] | None) -> None:
    """Have `hook(function name)` told of every call that a test did not script; the supervisor fails the case by it."""
    global _unscripted_hook
    _unscripted_hook = hook


def report_unscripted(fn: str) -> None:
    """Tell the hook, if there is one, that `fn` was called without a scripted reply."""
    if _unscripted_hook is not None:
        _unscripted_hook(fn)


def call(fn: Callable[..., Any], bound: Mapping[str, Any], *, labels: frozenset[str] = frozenset()) -> Any:
    """Have the backend answer one use of `fn`; other branches go on meanwhile, the caller's own loop does not.

    `bound` maps every parameter of `fn` to its value. Parameters at their default are left out, so that an added parameter does
    not change the identity of older calls; those in `labels` only name the call for people.

    Raises:
        RuntimeError: there is no run and no gate, or the call comes from a thread.
        CallError: the call failed.
    """
    name = fn.__name__
    backend = _backend_for(name)
    arguments, label = _bound(fn, bound, labels)
    return backend.call(name, arguments, label=label, site=site(sys._getframe(1)), phase=list(open_phases.get()))


def call_async(
    fn: Callable[..., Any], bound: Mapping[str, Any], *, labels: frozenset[str] = frozenset()
) -> Awaitable[Any]:
    """As `call`, from a coroutine: other tasks of its loop go on meanwhile.

    Raises:
        RuntimeError: as `call`, or no loop of a run or a script runs.
    """
    name = fn.__name__
    _backend_for(name)
    from cloche import _loop

    loop = _loop.running(f"{name}_async")
    arguments, label = _bound(fn, bound, labels)
    return loop.call(name, arguments, label=label, site=site(sys._getframe(1)), phase=list(open_phases.get()))


def strands_for(name: str) -> Strands:
    """The strands of the program that calls the primitive `name`.

    Raises:
        RuntimeError: there is no run and no gate, or the caller is a thread.
    """
    _backend_for(name)
    assert _strands is not None
    return _strands


def site(frame: FrameType | None) -> str:
    """Where the package's code stands, or the code that started this branch if that is ours alone."""
    return _package.site(frame) or _scopes.current().site


def _backend_for(name: str) -> Backend:
    if _backend is None or _strands is None:
        raise RuntimeError(
            f"{name}() needs a run or a gate: outside a cell nothing executes calls. "
            "In a test, script the replies with cloche.testing.script(...)."
        )
    if get_ident() != _strands.ident:
        raise RuntimeError(
            f"{name}() was called from another thread: calls of a run have one order, and threads have none. "
            "Use parallel(), pipeline() or asyncio."
        )
    return _backend


def _bound(fn: Callable[..., Any], bound: Mapping[str, Any], labels: frozenset[str]) -> tuple[dict[str, Any], str]:
    defaults = _defaults(fn)
    arguments = {
        parameter: value
        for parameter, value in bound.items()
        if parameter not in labels and not (parameter in defaults and _same(value, defaults[parameter]))
    }
    return arguments, " ".join(str(bound[parameter]) for parameter in sorted(labels))


def _defaults(fn: Callable[..., Any]) -> dict[str, Any]:
    code = fn.__code__
    positional = code.co_varnames[: code.co_argcount]
    values = fn.__defaults__ or ()
    by_place = dict(zip(positional[len(positional) - len(values) :], values, strict=True))
    return {**by_place, **(fn.__kwdefaults__ or {})}


def _same(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and bool(value == default))
