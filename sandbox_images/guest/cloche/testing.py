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

import json
import random
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final, overload

from cloche_guest import codec, wire

from cloche import _call, _imports, _package, _schema, _scopes
from cloche._errors import CallError
from cloche._output import UNSET, from_argument
from cloche._strands import Deadlock, Pending, Strands, Waiter
from cloche._workspace import Workspace

__all__ = ["Call", "Calls", "UnscriptedCall", "UnusedReplies", "data", "data_bytes", "script"]

NOW: Final = datetime(2026, 1, 1, tzinfo=timezone.utc)  # noqa: UP017  (the same object as datetime.UTC; its codec name)
"""What `cloche.now()` gives at the beginning of a script unless it says otherwise. Only timers move the clock."""

_ASKED: Final = frozenset({"agent", "llm", "ask"})
_FILE_TOOLS: Final = frozenset({"read", "list", "glob", "grep"})


class UnscriptedCall(BaseException):
    """The code made a call that the script has no reply for, or whose reply no run would give.

    Not an Exception, so that `except Exception` in a package does not hide it; the supervisor of a gate fails the case
    whatever the code catches, and leaving the script raises it again.
    """


class UnusedReplies(AssertionError):
    """The script holds replies that the code never asked for: it did not do what the test expects."""


@dataclass(frozen=True)
class Call:
    """One call that the code made.

    `arguments`: as recorded, by parameter name, defaults and labels left out. `scope`: `/` for the main line,
    `/<dependency>[k]` inside the k-th call of a dependency's entry, `/parallel@<place>[k.i]`, `/pipeline@<place>[k.i]` and
    `/task@<place>[k]` in branches, items and asyncio tasks, as in a run. `phase`: the open phases, outermost first.
    """

    function: str
    arguments: dict[str, Any]
    scope: str = "/"
    label: str = ""
    phase: tuple[str, ...] = ()


class Calls(Sequence[Call]):
    """The calls made so far, in order."""

    def __init__(self) -> None:
        self._made: list[Call] = []

    @overload
    def __getitem__(self, index: int) -> Call: ...
    @overload
    def __getitem__(self, index: slice) -> list[Call]: ...
    def __getitem__(self, index: int | slice) -> Call | list[Call]:
        return self._made[index]

    def __len__(self) -> int:
        return len(self._made)

    def __iter__(self) -> Iterator[Call]:
        return iter(self._made)

    def __repr__(self) -> str:
        return f"Calls({self._made!r})"

    def of(self, function: str) -> list[Call]:
        """The calls of one function, in order."""
        return [call for call in self._made if call.function == function]


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
    answering = _Script(_queues(agent, llm, ask, programs or {}), workspace, now)
    if isinstance(_call.current(), _Script):
        raise RuntimeError("a script is active already: one block answers all calls of a test")
    with _answered_by(answering):
        yield answering.calls
    answering.finish()


@contextmanager
def _answered_by(answering: _Script) -> Iterator[None]:
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


def _queues(
    agent: Sequence[Any], llm: Sequence[Any], ask: Sequence[Any], programs: Mapping[str, Sequence[Any]]
) -> dict[str, Sequence[Any]]:
    queues: dict[str, Sequence[Any]] = {"agent": agent, "llm": llm, "ask": ask, **programs}
    for name, replies in queues.items():
        if not isinstance(replies, (list, tuple)):
            raise TypeError(f"script: the replies of {name} are a list, not {type(replies).__name__}")
    reserved = {"agent", "llm", "ask", "now", "random", "new_id", "emit", "deliver", "timer"} & set(programs)
    if reserved:
        raise ValueError(f"script: programs cannot answer for {', '.join(sorted(reserved))}")
    return queues


class _Asked(Pending):
    """A call of a test. `answer` gives its value, called once while everything waits; `due`: of a timer."""

    __slots__ = ("_error", "_value", "answer", "due")

    def __init__(self, number: int, waiter: Waiter, answer: Callable[[], Any], due: float | None) -> None:
        super().__init__(number, waiter)
        self.answer = answer
        self.due = due
        self._value: Any = None
        self._error: BaseException | None = None

    def settle(self) -> None:
        """Make the answer."""
        self.answered = True
        try:
            self._value = self.answer()
        except BaseException as error:
            self._error = error

    def result(self) -> Any:
        """The answer."""
        if self._error is not None:
            raise self._error
        return self._value


@dataclass
class _Script:
    """The backend of a test."""

    queues: dict[str, Sequence[Any]]
    workspace: Mapping[str, str | bytes] | None
    now: datetime
    calls: Calls = field(default_factory=Calls)

    def __post_init__(self) -> None:
        if self.now.tzinfo is None:
            raise ValueError("script: now is an aware time")
        # The numbers must repeat, not surprise; each kind of draw has a stream of its own.
        self._random = random.Random(0)
        self._ids = random.Random(1)
        self._taken = dict.fromkeys(self.queues, 0)
        self._tools = {} if self.workspace is None else Workspace(self.workspace).tools()
        self._unscripted: list[str] = []
        self._open: dict[int, _Asked] = {}
        self._number = 0
        self._passed = 0.0
        self.strands = Strands(self)

    def call(self, fn: str, arguments: dict[str, Any], *, label: str, site: str, phase: list[str]) -> Any:
        """Note the call and give its scripted answer, after the round trip of a recording."""
        pending = self.begin(fn, arguments, label=label, site=site, phase=phase)
        self.strands.wait(pending)
        return pending.result()

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
        """Note the call, which takes its reply now and gets it when everything waits."""
        recorded = _round_trip(arguments)
        if len(self._open) >= wire.OUTSTANDING:
            raise RuntimeError(f"{wire.OUTSTANDING} calls are unanswered, the most there can be at once.")
        due, answer = None, partial(_nothing)
        if fn == "timer":
            due = self._passed + arguments["delay_s"]
        else:
            self.calls._made.append(Call(fn, recorded, _scopes.current().path, label, tuple(phase)))
            answer = partial(self._answered, self._answer(fn, _round_trip(arguments), site))
        self._number += 1
        asked = _Asked(self._number, waiter or self.strands.current, answer, due)
        self._open[self._number] = asked
        return asked

    def take(self) -> Pending:
        """The oldest call; when there are only timers, the one that is over first."""
        if not self._open:
            raise Deadlock("everything in the code waits, and no call is unanswered: it could never go on")
        asked = min(self._open.values(), key=lambda one: (-1.0 if one.due is None else one.due, one.number))
        del self._open[asked.number]
        if asked.due is not None:
            self._passed = max(self._passed, asked.due)
        asked.settle()
        return asked

    def drop(self, pending: Pending) -> None:
        """Forget a call that nobody waits for."""
        self._open.pop(pending.number, None)
        pending.answered = True

    def monotonic(self) -> float:
        """Seconds of timers that passed."""
        return self._passed

    def _answered(self, answer: Callable[[], Any]) -> Any:
        try:
            return _round_trip(answer())
        except CallError:
            raise
        except Exception as error:
            text = "".join(traceback.format_exception_only(error))
            raise CallError(type(error).__name__, str(error), text) from None

    def finish(self) -> None:
        """Fail for what was called without a reply, then for replies that nothing called for."""
        if self._unscripted:
            raise UnscriptedCall(self._unscripted[0])
        left = {name: len(queue) - self._taken[name] for name, queue in self.queues.items()}
        unused = [f"{name}: {n} of {len(self.queues[name])} replies" for name, n in left.items() if n]
        if unused:
            raise UnusedReplies(f"never asked for: {'; '.join(unused)}")

    def _answer(self, fn: str, arguments: dict[str, Any], site: str) -> Callable[[], Any]:
        """What makes the answer later."""
        if self.queues.get(fn):
            return self._next_reply(fn, arguments, site)
        if fn in self._tools:
            return partial(self._tools[fn], **arguments)
        match fn:
            case "now":
                return lambda: (self.now + timedelta(seconds=self._passed)).astimezone(timezone.utc)  # noqa: UP017
            case "random":
                return self._random.random
            case "new_id":
                return lambda: f"{self._ids.getrandbits(128):032x}"
            case "emit" | "deliver":
                return _nothing
        wanted = "workspace={…}" if fn in _FILE_TOOLS else f"{fn}=[…]" if fn in _ASKED else f"programs={{{fn!r}: […]}}"
        raise self._mistake(fn, f"{fn}() was called{_at(site)} and the script has no {wanted}")

    def _next_reply(self, fn: str, arguments: dict[str, Any], site: str) -> Callable[[], Any]:
        number, queue = self._taken[fn], self.queues[fn]
        if number >= len(queue):
            raise self._mistake(
                fn, f"{fn}() was called{_at(site)} for the {number + 1}. time; the script has {len(queue)} replies"
            )
        self._taken[fn] += 1
        return partial(self._reply, fn, arguments, number)

    def _reply(self, fn: str, arguments: dict[str, Any], number: int) -> Any:
        reply = self.queues[fn][number]
        if isinstance(reply, Exception) or (isinstance(reply, type) and issubclass(reply, Exception)):
            raise reply
        value = reply(**arguments) if callable(reply) else reply
        wrong = _unfit(fn, value, arguments) if fn in _ASKED else ""
        if wrong:
            raise self._mistake(fn, f"reply {number + 1} of {fn} is none that a run would give: {wrong}")
        return value

    def _mistake(self, fn: str, text: str) -> UnscriptedCall:
        self._unscripted.append(text)
        _call.report_unscripted(fn)
        return UnscriptedCall(text)


def _at(site: str) -> str:
    return f" at {site}" if site else ""


def _nothing() -> None:
    return None


def _unfit(fn: str, value: Any, arguments: dict[str, Any]) -> str:
    asked = from_argument(arguments.get("schema") if fn == "ask" else arguments.get("response_format"))
    if asked is None:
        return "" if isinstance(value, str) else f"without response_format it is text, not {type(value).__name__}"
    if asked.fallback is not UNSET and value == asked.fallback:
        return ""
    try:
        plain = json.loads(json.dumps(value, allow_nan=False)) == value
    except (TypeError, ValueError):
        plain = False
    return _schema.problem(value, asked.schema) if plain else "it is no JSON value"


def _round_trip(value: Any) -> Any:
    return codec.decode(json.loads(codec.text(codec.encode(value))), resolve=_resolve)


def _resolve(name: str) -> type:
    module, _, qualified = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in qualified.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    if not isinstance(found, type):
        raise codec.CodecError("$", f"{name} is no class of a loaded package")
    return found


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
