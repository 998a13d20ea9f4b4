"""The way from a primitive to whoever answers it: one backend, installed by the worker of a cell or by a test's script.

Owns the binding of arguments, the place in the source, the open phases and the refusal of calls that come from somewhere a
recording cannot order (threads, asyncio tasks). Knows nothing of the transport, the codec, scopes or numbering: those are the
backend's.
"""

from __future__ import annotations

import sys
from _thread import get_ident
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final, Protocol

from cloche import _package

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


_installed: tuple[Backend, int] | None = None
_unscripted_hook: Callable[[str], None] | None = None


def install(backend: Backend | None) -> Backend | None:
    """Let `backend` answer every call of this thread from now on (None: nobody); returns the one before."""
    global _installed
    before = current()
    _installed = None if backend is None else (backend, get_ident())
    return before


def current() -> Backend | None:
    """The backend that answers now."""
    return None if _installed is None else _installed[0]


def install_unscripted_hook(hook: Callable[[str], None] | None) -> None:
    """Have `hook(function name)` told of every call that a test did not script; the supervisor fails the case by it."""
    global _unscripted_hook
    _unscripted_hook = hook


def report_unscripted(fn: str) -> None:
    """Tell the hook, if there is one, that `fn` was called without a scripted reply."""
    if _unscripted_hook is not None:
        _unscripted_hook(fn)


def call(fn: Callable[..., Any], bound: Mapping[str, Any], *, labels: frozenset[str] = frozenset()) -> Any:
    """Have the backend answer one use of `fn`.

    `bound` maps every parameter of `fn` to its value. Parameters at their default are left out, so that an added parameter does
    not change the identity of older calls; those in `labels` only name the call for people.

    Raises:
        RuntimeError: there is no run and no gate, or the call comes from a thread or an asyncio task.
        CallError: the call failed.
    """
    name = fn.__name__
    backend = _backend_for(name)
    defaults = _defaults(fn)
    arguments = {
        parameter: value
        for parameter, value in bound.items()
        if parameter not in labels and not (parameter in defaults and _same(value, defaults[parameter]))
    }
    label = " ".join(str(bound[parameter]) for parameter in sorted(labels))
    return backend.call(
        name, arguments, label=label, site=_package.site(sys._getframe(1)), phase=list(open_phases.get())
    )


def _backend_for(name: str) -> Backend:
    if _installed is None:
        raise RuntimeError(
            f"{name}() needs a run or a gate: outside a cell nothing executes calls. "
            "In a test, script the replies with cloche.testing.script(...)."
        )
    backend, thread = _installed
    if get_ident() != thread:
        raise RuntimeError(
            f"{name}() was called from another thread: calls of a run have one order, and threads have none"
        )
    # Looked up, not imported: importing asyncio takes ten times as long as starting the interpreter.
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None and asyncio._get_running_loop() is not None:
        raise RuntimeError(f"{name}() was called from an asyncio task: this version orders calls of the main line only")
    return backend


def _defaults(fn: Callable[..., Any]) -> dict[str, Any]:
    code = fn.__code__
    positional = code.co_varnames[: code.co_argcount]
    values = fn.__defaults__ or ()
    by_place = dict(zip(positional[len(positional) - len(values) :], values, strict=True))
    return {**by_place, **(fn.__kwdefaults__ or {})}


def _same(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and bool(value == default))
