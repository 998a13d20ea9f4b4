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
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cloche_guest import codec

from engine.errors import SandboxError
from engine.run.calls import CallKey, CallRequest, CallResult, Effects, Kind, key_digest
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


@dataclass(frozen=True)
class _Reply:
    number: int
    value: Any
    ahead: str


class ScriptedCell:
    """Plays one program; `replies` notes what the host answered, in order, `taken_ahead` counts answers that came before the call."""

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
        self._still = self._paused = False
        self._line: deque[_Reply] = deque()
        self._asked: dict[int, str] = {}
        self._void = self._given_up_ahead = False
        self.taken_ahead = 0
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

    async def receive_within(self, seconds: float) -> CellFrame | None:
        try:
            async with asyncio.timeout(None if self._frames.qsize() else seconds):
                return await self.receive()
        except TimeoutError:
            return None

    async def reply_ok(self, number: int, encoded: Any, *, at: float, ahead: str = "") -> None:
        if not ahead:
            self.replies.append(("ok", number, encoded))
        self._answered(_Reply(number, codec.decode(json.loads(codec.text(encoded))), ahead))

    async def reply_error(
        self, number: int, type_name: str, message: str, traceback: str, *, at: float, ahead: str = ""
    ) -> None:
        if not ahead:
            self.replies.append(("error", number, type_name))
        self._answered(_Reply(number, CallError(type_name, message, number), ahead))

    async def reply_stop(self, number: int, reason: str) -> None:
        self.replies.append(("stop", number, reason))
        self._put_end(Cause.EXIT, "exited", 1, None)

    async def cancel(self, reason: str) -> None:
        self.cancelled = reason
        self._put_end(Cause.CANCELLED, reason, None, None)

    async def finish(self) -> CellEnd:
        self.finished += 1
        return self._end

    def _answered(self, reply: _Reply) -> None:
        if reply.ahead and self._void:
            return
        self._line.append(reply)
        if self._paused and (next_one := self._next_in_line()) is not None:
            self._paused = False
            self._go_on(next_one)
        elif self._paused and self._given_up_ahead:
            self._frames.put_nowait(self._quiet())

    def _go_on(self, reply: _Reply | None) -> None:
        """Play until the program waits and no answer is there, or until it ends."""
        while True:
            value = None if reply is None else (reply.number, reply.value) if self._still else reply.value
            try:
                step = self._running.throw(value) if isinstance(value, CallError) else self._running.send(value)
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
            if not isinstance(step, Ask | Still):
                self._die(step)
                return
            reply = self._pause(step)
            if reply is None:
                return

    def _die(self, step: Step) -> None:
        if isinstance(step, Die):
            self._put_end(step.cause, step.detail, step.exit, None)
        elif isinstance(step, Lose):
            self._end = CellEnd(self.cell_id, step.cause, "", None, 0, Accounting())
            self._frames.put_nowait(step.error)

    def _pause(self, step: Ask | Still) -> _Reply | None:
        """The program waits: gives the answer that is there already, or tells the host."""
        call = self._call(step) if isinstance(step, Ask) else None
        found = self._next_in_line()
        self._still, self._paused = call is None, found is None
        if call is not None:
            self._frames.put_nowait(replace(call, waits=found is None and not self._given_up_ahead))
        if found is None and (call is None or self._given_up_ahead):
            self._frames.put_nowait(self._quiet())
        return found

    def _next_in_line(self) -> _Reply | None:
        """The next answer; one that was sent ahead of another call than was made voids all that were."""
        if not self._line:
            return None
        first = self._line[0]
        if first.ahead and self._asked.get(first.number) != first.ahead:
            self._line = deque(reply for reply in self._line if not reply.ahead)
            self._void = self._given_up_ahead = True
            return self._line.popleft() if self._line else None
        self.taken_ahead += bool(first.ahead)
        self._asked.pop(first.number, None)
        return self._line.popleft()

    def _quiet(self) -> Quiet:
        told, self._given_up_ahead = self._given_up_ahead, False
        return Quiet(self._calls, self.taken_ahead if told else None)

    def _waits(self, step: Step) -> bool:
        return not isinstance(step, Output | Artifact | GiveUp) and not (isinstance(step, Ask) and not step.waits)

    def _at_once(self, step: Step) -> int | None:
        """Send what the program does not wait for; the number of a call."""
        if isinstance(step, Ask):
            self._frames.put_nowait(self._call(step))
            return self._calls
        assert isinstance(step, Output | Artifact | GiveUp)
        if isinstance(step, GiveUp):
            self._asked.pop(step.number, None)
        self._frames.put_nowait(Drop(step.number) if isinstance(step, GiveUp) else step)
        return None

    def _call(self, step: Ask) -> Call:
        self._calls += 1
        self._numbers[step.scope, step.fn] += 1
        n = step.n if step.n is not None else self._numbers[step.scope, step.fn]
        encoded = codec.encode(step.args)
        args = codec.decode(encoded)
        key = CallKey(step.scope, step.fn, n, codec.digest(encoded))
        self._asked[self._calls] = key_digest(key)
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
