"""Scripted answers for behaviour tests of packages: no model, no workspace of a machine, no clock is ever reached.

    from cloche.testing import data, script

    def test_the_report_names_every_fact():
        with script(workspace={"todo.csv": data("todo.csv")}, agent=[{"title": "…"}]) as calls:
            result = weekly_report("week 48")
        assert calls.of("agent")[0].label == "write the report"

The same test runs in the gate's cell and, for an author, in a plain pytest session. Dependencies are not replaced: they run for
real and their calls are answered from the same script. Replies and arguments make the round trip that a recording makes, so
what a run could not record fails here too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final

from cloche import _call, _imports, _package, _scopes
from cloche._script import Call, Calls, Script, UnscriptedCall, UnusedReplies, queues_of

__all__ = ["Call", "Calls", "UnscriptedCall", "UnusedReplies", "data", "data_bytes", "script"]

NOW: Final = datetime(2026, 1, 1, tzinfo=timezone.utc)  # noqa: UP017  (the same object as datetime.UTC; its codec name)
"""What `cloche.now()` gives at the beginning of a script unless it says otherwise. Only timers move the clock."""


@contextmanager
def script(
    *,
    workspace: Mapping[str, str | bytes] | None = None,
    agent: Sequence[Any] = (),
    llm: Sequence[Any] = (),
    programs: Mapping[str, Sequence[Any]] | None = None,
    ask: Sequence[Any] = (),
    now: datetime = NOW,
) -> Iterator[Calls]:
    """Answer every call of the block from the script; gives the calls made.

    `agent`, `llm` and `ask` are their replies in order, `programs` maps a registered program's name to its replies. A reply is a value,
    a callable that gets the recorded arguments as keywords and returns the value, or an exception (instance or class), which
    becomes CallError with its name and text. Without `response_format` a model's reply is text; with one, its rough shape is
    checked against the schema (not every keyword of JSON Schema: that is the host's).

    `workspace` maps relative paths to contents, answered by `read list glob grep` with the host's bounds and order; a file tool
    named in `programs` answers from there instead. `now` is an aware time, the same for every call until a timer moves it;
    `random` and `new_id` give the same sequence every time. `emit` and `deliver` are noted in the calls.

    Branches and asyncio tasks run as in a run. A call takes its reply when it is made; once everything waits, calls get their
    answers one by one in the order in which they were made, and when none is left the next timer is over. Timers follow a clock
    of the script, so that `asyncio.sleep(3600)` takes no time; they are no part of the calls.

    Raises:
        UnscriptedCall: at the call, and again at the end of the block if the code caught it.
        UnusedReplies: at the end of the block, naming the function and the number of replies left.
        RuntimeError: another script is active.
        TypeError, ValueError: the script itself is wrong.
    """
    answering = Script(queues_of(agent, llm, ask, programs or {}), workspace, now)
    if isinstance(_call.current(), Script):
        raise RuntimeError("a script is active already: one block answers all calls of a test")
    with _answered_by(answering):
        yield answering.calls
    answering.finish()


@contextmanager
def _answered_by(answering: Script) -> Iterator[None]:
    backend = _call.install(answering)
    entries: dict[FrameType, _scopes.Scope] = {}
    scopes = _scopes.begin(None if _loads_packages() else partial(_inside_entries, entries))
    loops = _Loops()
    asyncio = _imports.AfterImport("asyncio", loops.install)
    try:
        yield
    finally:
        asyncio.forget()
        loops.take_back()
        _scopes.resume(scopes)
        _call.install(backend)
        entries.clear()


class _Loops:
    """Loops of the script for as long as it is active, if asyncio is ever imported."""

    def __init__(self) -> None:
        self.take_back: Callable[[], None] = lambda: None

    def install(self) -> None:
        from cloche import _loop

        self.take_back = _loop.install()


def _loads_packages() -> bool:
    """True in a cell, where the loader makes every entry of a dependency open its scope."""
    loader = sys.modules.get("cloche_guest.loader")
    return loader is not None and loader.installed


def data(name: str) -> str:
    """Text of `tests/data/<name>` of the package whose test calls this, UTF-8, line ends unchanged.

    Raises:
        ValueError: `name` climbs. FileNotFoundError: there is no such file; the message lists those there are.
    """
    return _data_file(sys._getframe(1), name).read_bytes().decode()


def data_bytes(name: str) -> bytes:
    """Bytes of `tests/data/<name>`, as `data`."""
    return _data_file(sys._getframe(1), name).read_bytes()


def _data_file(caller: FrameType, name: str) -> Path:
    module = _package.module_name(caller)
    if _package.package_id(module):
        tests = _package.folder(module) / "tests"
    else:
        above = Path(caller.f_code.co_filename).resolve().parents
        found = next((folder for folder in above if folder.name == "tests"), None)
        if found is None:
            raise RuntimeError("data() reads tests/data of a package; this code lies below no folder named tests")
        tests = found
    return _package.text_file(tests / "data", name, kind="test data file")


def _inside_entries(entries: dict[FrameType, _scopes.Scope], scope: _scopes.Scope) -> _scopes.Scope:
    """Where the caller stands, read from the stack: entries of other packages than the one around them, outermost first.

    `scope` is that of the running branch or task, whose code alone is looked at. `entries` keeps the scopes that were opened.
    """
    stack: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code not in _scopes.boundaries:
        if _package.package_id(_package.module_name(frame)):
            stack.append(frame)
        frame = frame.f_back
    around = scope.package
    for inner in reversed(stack):
        package = _package.package_id(_package.module_name(inner))
        entered = _package.module_name(inner) == f"workflows.{package}.workflow" and inner.f_code.co_name == package
        if around and package != around and entered:
            if inner not in entries:
                entries[inner] = scope.child(package, package=package, site=_package.site(inner))
            scope = entries[inner]
        around = package
    return scope
