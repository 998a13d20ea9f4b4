"""One pass of a program through one cell: every call is replayed, executed or the end of the pass, and recorded around it.

Owns the order of record, side effect and reply. It opens and destroys no cell; `generation` does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, assert_never

from cloche_guest import codec

from engine.errors import SandboxError
from engine.run.blobs import text_of
from engine.run.calls import CallFailed as CallFailure
from engine.run.calls import CallHandler, CallKey, CallRequest, CallResult, Effects, RunContext
from engine.run.cells import RunCell
from engine.run.claim import Recorder
from engine.run.divergence import Divergence, compare
from engine.run.ending import CANCELLED, DEADLINE, Ending
from engine.run.events import CallCompleted, CallFailed, CallStarted, ErrorText
from engine.run.folder import Stored
from engine.run.history import Record
from engine.run.kept import Kept
from engine.run.order import CallOrder, OutOfOrder
from engine.run.projection import UNENCODABLE
from engine.run.replay import AskPerson, Diverged, Execute, OnUnknown, Replay, decide
from engine.run.status import Status
from engine.run.wording import (
    LABEL_CHARACTERS,
    MESSAGE_CHARACTERS,
    TRACEBACK_CHARACTERS,
    clean,
    clean_end,
)
from engine.sandbox.frames import Artifact, Call, CellFrame, End, Output, Result

LOOK_S = 0.2
"""How often a pass looks for a cancel request and at its deadline."""

DRAIN_S = 2.0
"""How long a stopped program's last output is waited for; a cancelled one's a quarter of that."""

PHASES = 16


@dataclass(frozen=True)
class PassPolicy:
    """What holds for a pass. `deadline` is a time of the monotonic clock, `grace_s` what the cell gets beyond it to end itself."""

    deadline: float
    grace_s: float = 5.0
    value_bytes: int = 64 * 1024 * 1024
    record_bytes: int = 256 * 1024 * 1024
    on_unknown: OnUnknown | None = None
    accept_divergence: bool = False


@dataclass(frozen=True)
class _Executing:
    """The call that is being executed."""

    call: Call
    seq: int
    task: asyncio.Task[CallResult]


class Pass:
    """Run it once; afterwards `stop`, `result`, `cause` and `asked` say what happened.

    `stop` is set when the host ended the pass; `result` is what the entry gave, if it came to that; `cause` is the `s` of the
    failed call whose CallError left the entry, 0 for none; `asked` are the keys of all calls. `progress` is called after every
    step.
    """

    def __init__(
        self,
        recorder: Recorder,
        *,
        cell: RunCell,
        handlers: Mapping[str, CallHandler],
        context: RunContext,
        policy: PassPolicy,
        kept: Kept,
        progress: Callable[[], object],
    ) -> None:
        self.stop: Ending | None = None
        self.result: Result | None = None
        self.cause = 0
        self.asked: set[CallKey] = set()
        self._recorder = recorder
        self._run = recorder.run
        self._cell = cell
        self._handlers = handlers
        self._context = context
        self._policy = policy
        self._kept = kept
        self._progress = progress
        self._order = CallOrder(frozenset(self._run.spec.pins))
        self._records: dict[int, int] = {}
        self._executing: _Executing | None = None
        self._looked = 0.0
        self._blob_bytes = self._run.blobs.size()

    async def run(self) -> None:
        """Go on until the cell's last word or until the host stops the pass.

        Raises:
            SandboxError: the cell was lost or broke the protocol.
            EngineFailure: something could not be recorded; nothing was executed without its record.
        """
        try:
            while self.stop is None:
                frame = await self._next()
                self._look()
                if self.stop is not None:
                    if isinstance(frame, Output | Artifact):
                        await self._take(frame)
                    break
                if frame is not None and await self._take(frame):
                    return
                if self._executing is not None and self._executing.task.done():
                    executing, self._executing = self._executing, None
                    await self._answer(executing.call, executing.seq, executing.task)
                self._progress()
            await self._abandon()
            await self._drain()
        finally:
            await self._abandon()

    async def _next(self) -> CellFrame | None:
        """The next frame; None when a call's execution ended first, or when it is time to look around."""
        if self._executing is None:
            try:
                async with asyncio.timeout(LOOK_S):
                    return await self._cell.receive()
            except TimeoutError:
                return None
        receiving = asyncio.ensure_future(self._cell.receive())
        waited_for: set[asyncio.Future[Any]] = {receiving, self._executing.task}
        try:
            await asyncio.wait(waited_for, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
            return receiving.result() if receiving.done() else None
        finally:
            if not receiving.done():
                receiving.cancel()
                await asyncio.gather(receiving, return_exceptions=True)

    def _look(self) -> None:
        now = self._run.clock.monotonic_s()
        if now - self._looked < LOOK_S / 2:
            return
        self._looked = now
        if self._run.cancel_path.exists():
            self.stop = CANCELLED
        elif now > self._policy.deadline + self._policy.grace_s:
            self.stop = DEADLINE

    async def _take(self, frame: CellFrame) -> bool:
        """Handle one frame; True for the last one."""
        match frame:
            case Call():
                await self._call(frame)
            case Output():
                self._kept.output(frame)
            case Artifact():
                self._kept.artifact(frame)
            case Result():
                self.result = frame
            case End():
                self._note_cause(frame)
                return True
        return False

    def _note_cause(self, end: End) -> None:
        record = self._recorder.history.records.get(self._records.get(end.calls[0] if end.calls else 0, 0))
        if record is not None and isinstance(record.outcome, CallFailed):
            self.cause = record.seq

    # one call

    async def _call(self, call: Call) -> None:
        try:
            if self._executing is not None:
                raise OutOfOrder("call.overlapping", "a call came before the one before it was answered")
            self._order.take(call)
        except OutOfOrder as error:
            told = f"the program broke the protocol of its cell ({error.name})"
            text = ErrorText(type=error.name, message=str(error))
            await self._stop_at(call, Ending(Status.FAILED, "message", told, text))
            return
        # `encoded` is the host's own: the exchange compared it with what encoding the decoded arguments gives.
        key = CallKey(call.scope, call.fn, call.n, codec.digest(call.encoded))
        self.asked.add(key)
        await self._step(call, key, call.encoded)

    async def _step(self, call: Call, key: CallKey, encoded: Any) -> None:
        handler = self._handlers.get(call.fn)
        step = decide(
            self._recorder.history,
            key,
            effects=handler.effects if handler else Effects.NONE,
            on_unknown=self._policy.on_unknown,
            accept_divergence=self._policy.accept_divergence,
        )
        match step:
            case Replay(record):
                self._records[call.number] = record.seq
                await self._reply(call.number, record)
            case Execute():
                await self._execute(call, key, encoded, handler)
            case AskPerson(record):
                await self._stop_at(call, _ask_person(record))
            case Diverged(record):
                await self._stop_at(call, _diverged(self._compare(call, key, encoded, record)))
            case _:
                assert_never(step)

    def _compare(self, call: Call, key: CallKey, encoded: Any, record: Record) -> Divergence:
        started = record.started
        recorded = self._run.value(started.args, started.args_blob)
        return compare(key, recorded=recorded, asked=encoded, recorded_site=started.site, site=_site(call))

    async def _execute(self, call: Call, key: CallKey, encoded: Any, handler: CallHandler | None) -> None:
        counted = handler is not None and handler.counted
        cap = self._recorder.history.cap(self._run.spec.cap)
        if counted and self._recorder.history.executions >= cap:
            await self._stop_at(call, Ending(Status.CAPPED, "capped", f"the run made {cap} executions, its cap"))
            return
        raw = text_of(encoded)
        if self._recorder.size + self._blob_bytes + len(raw) > self._policy.record_bytes:
            await self._stop_at(call, _record_full(self._policy.record_bytes))
            return
        seq = self._start(call, key, self._keep(encoded, raw), counted)
        request = CallRequest(
            key=key,
            args=call.args,
            label=call.label,
            idempotency_key=":".join((self._run.run_id, key.scope, key.fn, str(key.n), key.digest)),
            context=self._context,
            replies_used=frozenset(self._recorder.history.replies_used),
        )
        performing = _perform(handler, request)
        if handler is not None and handler.instant:
            await self._answer(call, seq, performing)
        else:
            self._executing = _Executing(call, seq, asyncio.ensure_future(performing))

    def _keep(self, encoded: Any, raw: bytes) -> Stored:
        stored = self._run.keep(encoded, raw=raw)
        self._blob_bytes += len(raw) if stored.blob else 0
        return stored

    def _start(self, call: Call, key: CallKey, arguments: Stored, counted: bool) -> int:
        """Have it on disk that the call begins; returns its `s`."""
        started = CallStarted(
            key=key,
            **arguments.named("args", "args_blob"),
            label=clean(call.label, LABEL_CHARACTERS),
            site=_site(call),
            phase=[clean(name, LABEL_CHARACTERS) for name in call.phase[:PHASES]],
            counted=counted,
        )
        (line,) = self._recorder.record(started)
        self._records[call.number] = line.seq
        return line.seq

    async def _answer(self, call: Call, seq: int, performed: Awaitable[CallResult]) -> None:
        """Record how the call ended, then tell the program, in that order."""
        try:
            outcome: CallCompleted | CallFailed = self._completed(call.fn, seq, await performed)
        except CallFailure as failure:
            outcome = CallFailed(
                of=seq,
                type=clean(failure.type_name, LABEL_CHARACTERS),
                message=clean(failure.message, MESSAGE_CHARACTERS),
                traceback=clean_end(failure.traceback, TRACEBACK_CHARACTERS),
                facts=failure.facts,
            )
        self._recorder.record(outcome)
        await self._reply(call.number, self._recorder.history.records[seq])

    def _completed(self, fn: str, of: int, result: CallResult) -> CallCompleted:
        try:
            encoded = codec.encode(result.value)
        except codec.CodecError as error:
            problem = clean(f"{fn}() gave a value that cannot be recorded: {error}", MESSAGE_CHARACTERS)
            return CallCompleted(of=of, unencodable=problem, facts=result.facts)
        raw = text_of(encoded)
        if len(raw) > self._policy.value_bytes:
            problem = f"{fn}() gave {len(raw):,} bytes; a value has at most {self._policy.value_bytes:,}"
            return CallCompleted(of=of, unencodable=problem, facts=result.facts)
        return CallCompleted(of=of, **self._keep(encoded, raw).named("result", "blob"), facts=result.facts)

    async def _reply(self, number: int, record: Record) -> None:
        match record.outcome:
            case CallCompleted(unencodable="") as outcome:
                await self._cell.reply_ok(
                    number, self._run.value(outcome.result, outcome.blob), at=record.ended_at or 0.0
                )
            case CallCompleted() as outcome:
                await self._cell.reply_error(number, UNENCODABLE, outcome.unencodable, "", at=record.ended_at or 0.0)
            case CallFailed() as outcome:
                await self._cell.reply_error(
                    number, outcome.type, outcome.message, outcome.traceback, at=record.ended_at or 0.0
                )
            case None:
                raise AssertionError(f"call {record.seq} is answered without an outcome")

    # the end

    async def _stop_at(self, call: Call, ending: Ending) -> None:
        self.stop = ending
        await self._cell.reply_stop(call.number, ending.reason)

    async def _abandon(self) -> None:
        """Cancel what is being executed and wait until it is gone. Its outcome stays unknown; nothing of it is recorded."""
        executing, self._executing = self._executing, None
        if executing is not None:
            executing.task.cancel()
            await asyncio.gather(executing.task, return_exceptions=True)

    async def _drain(self) -> None:
        """Take in what a stopped program still put out. What goes wrong meanwhile changes nothing: the pass is decided."""
        cancelled = self.stop is CANCELLED
        try:
            async with asyncio.timeout(DRAIN_S / 4 if cancelled else DRAIN_S):
                if self.stop in (CANCELLED, DEADLINE):
                    await self._cell.cancel(self.stop.reason if self.stop else "")
                frame = await self._cell.receive()
                while not isinstance(frame, End):
                    if isinstance(frame, Output | Artifact):
                        await self._take(frame)
                    frame = await self._cell.receive()
        except (TimeoutError, SandboxError):
            return


async def _perform(handler: CallHandler | None, request: CallRequest) -> CallResult:
    if handler is None:
        raise CallFailure("LookupError", f"there is no function {request.key.fn} that a run can call")
    if handler.permission and handler.permission not in request.context.permissions:
        told = f"{request.key.fn}() needs the permission {handler.permission}, which this run does not have"
        raise CallFailure("PermissionError", told)
    return await handler.execute(request)


def _site(call: Call) -> str:
    return clean(call.site, LABEL_CHARACTERS)


def _record_full(bound: int) -> Ending:
    told = f"the record of the run would grow past {bound:,} bytes, its limit (record_bytes)"
    return Ending(Status.FAILED, "limit:record", told)


def _ask_person(record: Record) -> Ending:
    told = (
        f"{record.key.fn}() at {record.started.site or 'an unknown place'} was started and its outcome is unknown; "
        "doing it again may do it twice"
    )
    return Ending(Status.INTERRUPTED, "unknown_outcome", told)


def _diverged(found: Divergence) -> Ending:
    told = clean(str(found), MESSAGE_CHARACTERS)
    return Ending(Status.FAILED, "diverged", told.partition("\n")[0], ErrorText(type="Diverged", message=told))
