"""The backend of a scripted test: notes calls, gives each its reply, and lets timers pass on a clock of its own."""

from __future__ import annotations

import json
import random
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any, Final, overload

from cloche_guest import codec, wire

from cloche import _call, _schema, _scopes
from cloche._errors import CallError
from cloche._output import UNSET, from_argument
from cloche._strands import Deadlock, Pending, Strands, Waiter
from cloche._workspace import Workspace

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


def queues_of(
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
class Script:
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
