"""A cell without a container: a Python generator plays the program, so that runs are driven in memory.

def program():
    found = yield ask("read", path="a.txt")      # gets the reply, or CallError is raised here
    yield say(b"hello")                          # output
    return found["text"]                         # the entry's result; an exception leaves the entry
"""

from __future__ import annotations

import asyncio
import json
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cloche_guest import codec

from engine.errors import SandboxError
from engine.run.calls import CallRequest, CallResult, Effects, Kind
from engine.sandbox.frames import Artifact, Call, CellFrame, Drop, End, GuestError, Output, Quiet, Ready, Result
from engine.sandbox.jobs import RunJob
from engine.sandbox.outcome import Accounting, Cause, CellEnd


class CallError(Exception):
    """What the program sees of a failed call."""

    def __init__(self, type_name: str, message: str, number: int) -> None:
        super().__init__(f"{type_name}: {message}")
        self.type_name = type_name
        self.message = message
        self.number = number


@dataclass(frozen=True)
class Ask:
    """A call that the program makes. `n` forges the number of the call."""

    fn: str
    args: dict[str, Any]
    scope: str = "/"
    label: str = ""
    phase: tuple[str, ...] = ()
    site: str = "workflow.py:1"
    n: int | None = None
    waits: bool = True


@dataclass(frozen=True)
class Still:
    """The program is quiet: gives the next reply as `(number, value)`, a failure as a CallError in place of the value."""


@dataclass(frozen=True)
class GiveUp:
    """The program stops waiting for a call."""

    number: int


def begin(fn: str, *, scope: str = "/", **args: Any) -> Ask:
    """A call that the program does not wait for; gives its number at once."""
    return Ask(fn, args, scope, waits=False)


def ask(fn: str, *, scope: str = "/", label: str = "", phase: tuple[str, ...] = (), **args: Any) -> Ask:
    """A call with these arguments."""
    return Ask(fn, args, scope, label, phase)


@dataclass(frozen=True)
class Die:
    """The cell ends here, in this way, without a word of the program."""

    cause: Cause
    detail: str = ""
    exit: int | None = None


@dataclass(frozen=True)
class Lose:
    """Receiving raises this error here, and the cell is seen to have ended by `cause`."""

    error: SandboxError
    cause: Cause = Cause.SUPERVISOR_LOST


Step = Ask | Still | GiveUp | Output | Artifact | Die | Lose
Program = Callable[[], Generator[Step, Any, Any]]


def say(data: bytes, *, offset: int, stream: Any = "stdout") -> Output:
    """Bytes of a stream."""
    return Output(stream, offset, data)


class ScriptedCell:
    """Plays one program; `replies` notes what the host answered, in order."""

    image = "sha256:0"
    runtime = "scripted"

    def __init__(self, cell_id: str, program: Program) -> None:
        self.cell_id = cell_id
        self.job: RunJob | None = None
        self.replies: list[tuple[str, int, Any]] = []
        self.finished = 0
        self.cancelled = ""
        self._program = program
        self._frames: asyncio.Queue[CellFrame | SandboxError] = asyncio.Queue()
        self._numbers: Counter[tuple[str, str]] = Counter()
        self._calls = 0
        self._still = False
        self._end = CellEnd(cell_id, Cause.OPERATOR, "", None, 0, Accounting())

    async def deliver(self, job: RunJob, snapshot: Path) -> None:
        self.job = job
        self._frames.put_nowait(Ready())
        self._running = self._program()
        self._go_on(None)

    async def receive(self) -> CellFrame:
        frame = await self._frames.get()
        if isinstance(frame, SandboxError):
            raise frame
        return frame

    async def reply_ok(self, number: int, encoded: Any, *, at: float, ahead: str = "") -> None:
        self.replies.append(("ok", number, encoded))
        self._answered(number, codec.decode(json.loads(codec.text(encoded))))

    async def reply_error(
        self, number: int, type_name: str, message: str, traceback: str, *, at: float, ahead: str = ""
    ) -> None:
        self.replies.append(("error", number, type_name))
        self._answered(number, CallError(type_name, message, number))

    async def reply_stop(self, number: int, reason: str) -> None:
        self.replies.append(("stop", number, reason))
        self._put_end(Cause.EXIT, "exited", 1, None)

    async def cancel(self, reason: str) -> None:
        self.cancelled = reason
        self._put_end(Cause.CANCELLED, reason, None, None)

    async def finish(self) -> CellEnd:
        self.finished += 1
        return self._end

    def _answered(self, number: int, value: Any) -> None:
        if self._still:
            self._still = False
            self._go_on((number, value))
        else:
            self._go_on(value)

    def _go_on(self, reply: Any) -> None:
        """Play until the program waits, or ends."""
        try:
            step = self._running.throw(reply) if isinstance(reply, CallError) else self._running.send(reply)
            while not self._waits(step):
                step = self._running.send(self._at_once(step))
        except StopIteration as returned:
            self._frames.put_nowait(Result(codec.encode(returned.value), None))
            self._put_end(Cause.EXIT, "returned", 0, None)
            return
        except Exception as error:
            text = "".join(traceback.format_exception(error))
            self._frames.put_nowait(Result(None, GuestError(type(error).__name__, str(error), text)))
            self._put_end(Cause.EXIT, "raised", 1, _number(error))
            return
        if isinstance(step, Ask):
            self._frames.put_nowait(self._call(step))
        elif isinstance(step, Still):
            self._still = True
            self._frames.put_nowait(Quiet(self._calls))
        elif isinstance(step, Die):
            self._put_end(step.cause, step.detail, step.exit, None)
        elif isinstance(step, Lose):
            self._end = CellEnd(self.cell_id, step.cause, "", None, 0, Accounting())
            self._frames.put_nowait(step.error)

    def _waits(self, step: Step) -> bool:
        return not isinstance(step, Output | Artifact | GiveUp) and not (isinstance(step, Ask) and not step.waits)

    def _at_once(self, step: Step) -> int | None:
        """Send what the program does not wait for; the number of a call."""
        if isinstance(step, Ask):
            self._frames.put_nowait(self._call(step))
            return self._calls
        assert isinstance(step, Output | Artifact | GiveUp)
        self._frames.put_nowait(Drop(step.number) if isinstance(step, GiveUp) else step)
        return None

    def _call(self, step: Ask) -> Call:
        self._calls += 1
        self._numbers[step.scope, step.fn] += 1
        n = step.n if step.n is not None else self._numbers[step.scope, step.fn]
        encoded = codec.encode(step.args)
        args = codec.decode(encoded)
        return Call(self._calls, step.scope, step.fn, n, encoded, args, step.label, step.phase, step.site, step.waits)

    def _put_end(self, cause: Cause, detail: str, exit_code: int | None, call: int | None) -> None:
        self._end = CellEnd(self.cell_id, cause, detail, exit_code, 0, Accounting(run_s=0.1, cpu_s=0.05))
        self._frames.put_nowait(End(cause.value, detail, exit_code or 0, () if call is None else (call,), 0, {}))


def _number(error: BaseException | None) -> int | None:
    while error is not None and not isinstance(error, CallError):
        error = error.__cause__
    return error.number if isinstance(error, CallError) else None


@dataclass
class ScriptedCells:
    """A CellFactory: one cell per program, in order; the last one is played again when there are no more."""

    programs: list[Program]
    opened: list[ScriptedCell] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def __call__(self, *, run_id: str, generation: int) -> AsyncIterator[ScriptedCell]:
        number = len(self.opened)
        cell = ScriptedCell(f"c{number:016x}", self.programs[min(number, len(self.programs) - 1)])
        self.opened.append(cell)
        try:
            yield cell
        finally:
            self.left.append(cell.cell_id)


@dataclass
class Answers:
    """A CallHandler that gives what `answer(request)` gives, and notes every execution in `executed`."""

    answer: Callable[[CallRequest], Any]
    counted: bool = False
    kind: Kind = ""
    instant: bool = False
    effects: Effects = Effects.NONE
    permission: str = ""
    executed: list[CallRequest] = field(default_factory=list)

    async def execute(self, request: CallRequest) -> CallResult:
        self.executed.append(request)
        value = self.answer(request)
        if asyncio.iscoroutine(value):
            value = await value
        return value if isinstance(value, CallResult) else CallResult(value, {})
