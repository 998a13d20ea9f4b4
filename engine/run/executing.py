"""The calls of a run that are being executed: recorded when they begin, recorded when they end, and alive over cells.

A run that waits without a cell goes on executing what it began, so executions belong to the claim of a run and not to a pass.
Knows nothing of delivery: what the program gets when is `conversation`'s.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from cloche_guest import codec

from engine import log
from engine.run import answers
from engine.run.blobs import INLINE_BYTES, text_of
from engine.run.calls import CallFailed as CallFailure
from engine.run.calls import CallHandler, CallKey, CallRequest, CallResult, Effects, Kind, RunContext
from engine.run.claim import Recorder
from engine.run.ending import Ending
from engine.run.events import CallCompleted, CallDropped, CallFailed, CallStarted
from engine.run.folder import Stored
from engine.run.status import Status
from engine.run.wording import LABEL_CHARACTERS, MESSAGE_CHARACTERS, TRACEBACK_CHARACTERS, clean, clean_end
from engine.sandbox.frames import Call

AT_ONCE = 16
"""Handlers that run at once for one run; timers and questions take no place."""

GONE_S = 2.0
"""How long an execution may take to heed its cancellation."""

PHASES = 16

LOOK_S = 0.2
"""How often it is looked whether somebody cancels, while nothing else is waited for but calls."""


@dataclass(frozen=True)
class CallBounds:
    """What holds for the calls of a run. Bytes of one encoded value, and of journal and blobs together."""

    value_bytes: int = 64 * 1024 * 1024
    record_bytes: int = 256 * 1024 * 1024


@dataclass(frozen=True)
class Execution:
    """One call that has begun and has no outcome yet. `task` is None for a question; `began_s` is of the monotonic clock."""

    seq: int
    kind: Kind
    began_s: float
    task: asyncio.Task[CallResult] | None


class RecordFull(Exception):
    """A large outcome that the record has no room for; it was not recorded."""


class Calls:
    """The executions of one claimed run. `running` maps the `s` of each `call.started` to it.

    `full` is set when an outcome was left out because the record has no room for it: the run can only end.
    """

    def __init__(
        self,
        recorder: Recorder,
        *,
        handlers: Mapping[str, CallHandler],
        context: RunContext,
        bounds: CallBounds,
    ) -> None:
        self.running: dict[int, Execution] = {}
        self._recorder = recorder
        self._run = recorder.run
        self._handlers = handlers
        self._context = context
        self._bounds = bounds
        self._ended: deque[int] = deque()
        self.full: Ending | None = None
        self._blob_bytes = recorder.run.blobs.size()

    @property
    def tasks(self) -> set[asyncio.Task[CallResult]]:
        """What may end by itself."""
        return {execution.task for execution in self.running.values() if execution.task is not None}

    def takes_a_place(self, fn: str) -> bool:
        """True for calls of which only so many are executed at once."""
        handler = self._handlers.get(fn)
        return handler is not None and not handler.instant and not handler.kind

    @property
    def has_room(self) -> bool:
        """True when one more of these may begin."""
        running = self.running.values()
        return len(running) < AT_ONCE or sum(execution.kind == "" for execution in running) < AT_ONCE

    def effects(self, fn: str) -> Effects:
        """What executing a call of `fn` again may do."""
        handler = self._handlers.get(fn)
        return handler.effects if handler else Effects.NONE

    async def begin(self, call: Call, key: CallKey) -> int | Ending:
        """Record that the call begins, and execute it; gives the `s` of its record, or the ending that it makes.

        A call that never waits has its outcome recorded when this returns.

        Raises:
            StorageFull, EngineFailure: it could not be recorded; nothing was executed.
        """
        handler = self._handlers.get(call.fn)
        history = self._recorder.history
        counted = handler is not None and handler.counted
        if counted and history.executions >= (cap := history.cap(self._run.spec.cap)):
            return Ending(Status.CAPPED, "capped", f"the run made {cap} executions, its cap")
        raw = text_of(call.encoded)
        if not self._has_space(raw):
            return _record_full(self._bounds.record_bytes)
        kind: Kind = handler.kind if handler is not None else ""
        seq = self._start(call, key, self._keep(call.encoded, raw), kind=kind, counted=counted)
        await self._perform(seq, handler, self._request(call, key), kind)
        return seq

    def open_question(self, seq: int) -> None:
        """Count a question of an earlier generation among what the program waits for."""
        self.running[seq] = Execution(seq, "person", self._run.clock.monotonic_s(), None)

    async def collect(self) -> list[int]:
        """Record the outcome of every execution that ended; gives their `s`, in the order in which they ended.

        Raises:
            StorageFull, EngineFailure: an outcome could not be recorded.
        """
        recorded = []
        while self._ended:
            execution = self.running.pop(self._ended.popleft(), None)
            task = None if execution is None else execution.task
            if execution is not None and task is not None and await self._record_outcome(execution.seq, task):
                recorded.append(execution.seq)
        return recorded

    @property
    def questions(self) -> list[int]:
        """What waits for a person."""
        return [seq for seq, execution in self.running.items() if execution.task is None]

    def take_answers(self) -> list[int]:
        """Record the answers that were left for open questions; gives the `s` of these.

        Raises:
            StorageFull, EngineFailure: an answer could not be recorded.
        """
        answered = answers.take(self._recorder, self.questions)
        for seq in answered:
            del self.running[seq]
        return answered

    async def drop(self, seq: int) -> None:
        """End the execution of a call that the program no longer waits for, and record that; or its outcome, if it just ended."""
        execution = self.running.pop(seq, None)
        if execution is None:
            return
        if execution.task is not None:
            if execution.task.done():
                await self._record_outcome(seq, execution.task)
                return
            await _cancelled(execution.task)
        self._recorder.record(CallDropped(of=seq))

    async def let_finish(self, within_s: float, *, unless: Callable[[], bool]) -> bool:
        """Wait for what is being executed, timers left out, and record what came of it; then `abandon` the rest.

        `unless` is asked several times a second and ends the waiting; gives True when it did.
        """
        try:
            waited_for = {e.task for e in self.running.values() if e.task is not None and e.kind == ""}
            cut_short = False
            with suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    while within_s > 0 and waited_for and not (cut_short := unless()):
                        _, waited_for = await asyncio.wait(waited_for, timeout=LOOK_S)
            await self.collect()
            return cut_short
        finally:
            await self.abandon()

    async def abandon(self) -> None:
        """Cancel everything and wait until it is gone. Outcomes stay unknown; nothing is recorded.

        What does not heed its cancellation within `GONE_S` is left to itself: nobody will hear of it.
        """
        tasks, self.running = self.tasks, {}
        await _cancelled(*tasks)

    # one execution

    def _request(self, call: Call, key: CallKey) -> CallRequest:
        history = self._recorder.history
        before = [record.started_at for record in history.at(key) if record.key == key]
        return CallRequest(
            key=key,
            args=call.args,
            label=call.label,
            idempotency_key=":".join((self._run.run_id, key.scope, key.fn, str(key.n), key.digest)),
            context=self._context,
            replies_used=frozenset(history.replies_used),
            since=before[0],
        )

    async def _perform(self, seq: int, handler: CallHandler | None, request: CallRequest, kind: Kind) -> None:
        performing = _perform(handler, request)
        if kind == "person":
            await self._ask(seq, performing)
        elif handler is None or handler.instant:
            await self._record_outcome(seq, performing)
        else:
            task = asyncio.ensure_future(performing)
            task.add_done_callback(lambda _task: self._ended.append(seq))
            self.running[seq] = Execution(seq, kind, self._run.clock.monotonic_s(), task)

    async def _ask(self, seq: int, checking: Awaitable[CallResult]) -> None:
        """A question stays open when nothing is wrong with it."""
        try:
            await checking
        except CallFailure as failure:
            self._recorder.record(_failed(seq, failure))
        else:
            self.open_question(seq)

    def _start(self, call: Call, key: CallKey, arguments: Stored, *, kind: Kind, counted: bool) -> int:
        """Have it on disk that the call begins; returns its `s`."""
        started = CallStarted(
            key=key,
            **arguments.named("args", "args_blob"),
            label=clean(call.label, LABEL_CHARACTERS),
            kind=kind,
            site=site_of(call),
            phase=[clean(name, LABEL_CHARACTERS) for name in call.phase[:PHASES]],
            counted=counted,
        )
        (line,) = self._recorder.record(started)
        return line.seq

    async def _record_outcome(self, seq: int, performed: Awaitable[CallResult]) -> bool:
        """False when it was left out; the record then tells no more of the call than when this process had died."""
        fn = self._recorder.history.records[seq].key.fn
        try:
            outcome: CallCompleted | CallFailed = self._completed(fn, seq, await performed)
        except CallFailure as failure:
            outcome = _failed(seq, failure)
        except RecordFull:
            self.full = _record_full(self._bounds.record_bytes)
            return False
        self._recorder.record(outcome)
        return True

    def _completed(self, fn: str, of: int, result: CallResult) -> CallCompleted:
        try:
            encoded = codec.encode(result.value)
        except codec.CodecError as error:
            problem = clean(f"{fn}() gave a value that cannot be recorded: {error}", MESSAGE_CHARACTERS)
            return CallCompleted(of=of, unencodable=problem, facts=result.facts)
        raw = text_of(encoded)
        if len(raw) > self._bounds.value_bytes:
            problem = f"{fn}() gave {len(raw):,} bytes; a value has at most {self._bounds.value_bytes:,}"
            return CallCompleted(of=of, unencodable=problem, facts=result.facts)
        # Many end at once, each as large as a value may be. A small one, a model's reply, is kept: it may have cost something.
        if len(raw) > INLINE_BYTES and self.effects(fn) is Effects.NONE and not self._has_space(raw):
            raise RecordFull
        return CallCompleted(of=of, **self._keep(encoded, raw).named("result", "blob"), facts=result.facts)

    def _has_space(self, raw: bytes) -> bool:
        return self._recorder.size + self._blob_bytes + len(raw) <= self._bounds.record_bytes

    def _keep(self, encoded: Any, raw: bytes) -> Stored:
        stored = self._run.keep(encoded, raw=raw)
        self._blob_bytes += len(raw) if stored.blob else 0
        return stored


def site_of(call: Call) -> str:
    """The place of a call in the source, in the bounded form in which it is recorded."""
    return clean(call.site, LABEL_CHARACTERS)


async def _perform(handler: CallHandler | None, request: CallRequest) -> CallResult:
    if handler is None:
        raise CallFailure("LookupError", f"there is no function {request.key.fn} that a run can call")
    if handler.permission and handler.permission not in request.context.permissions:
        told = f"{request.key.fn}() needs the permission {handler.permission}, which this run does not have"
        raise CallFailure("PermissionError", told)
    return await handler.execute(request)


async def _cancelled(*tasks: asyncio.Task[CallResult]) -> None:
    for task in tasks:
        task.cancel()
    if not tasks:
        return
    ended, deaf = await asyncio.wait(tasks, timeout=GONE_S)
    for task in ended:
        if not task.cancelled():
            task.exception()  # looked at, so that the loop does not report it as forgotten
    if deaf:
        log.warning("calls.deaf", calls=len(deaf))


def _failed(seq: int, failure: CallFailure) -> CallFailed:
    return CallFailed(
        of=seq,
        type=clean(failure.type_name, LABEL_CHARACTERS),
        message=clean(failure.message, MESSAGE_CHARACTERS),
        traceback=clean_end(failure.traceback, TRACEBACK_CHARACTERS),
        facts=failure.facts,
    )


def _record_full(bound: int) -> Ending:
    told = f"the record of the run would grow past {bound:,} bytes, its limit (record_bytes)"
    return Ending(Status.FAILED, "limit:record", told)
