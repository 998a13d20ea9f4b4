"""One pass of a program through one cell: every call is replayed, executed or the end of the pass, and answered when it is due.

Owns the order of record, side effect and reply. It opens and destroys no cell (`generation` does), and what it began to execute
may outlive it (`executing`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, assert_never

from cloche_guest import codec, wire

from engine.errors import SandboxError
from engine.run.ahead import Ahead, Fit
from engine.run.answering import answer_from
from engine.run.calls import CallKey
from engine.run.cells import RunCell
from engine.run.claim import Recorder
from engine.run.delivery import Delivery
from engine.run.divergence import Divergence, asked_elsewhere, compare
from engine.run.ending import CANCELLED, DEADLINE, Ending
from engine.run.events import CallCompleted, CallFailed, ErrorText
from engine.run.executing import Calls, site_of
from engine.run.history import Record
from engine.run.kept import Kept
from engine.run.order import CallOrder, OutOfOrder
from engine.run.replay import AskPerson, Diverged, Execute, Hold, OnUnknown, Replay, Step, StillOpen, decide, unknown
from engine.run.status import Status
from engine.run.wording import MESSAGE_CHARACTERS, clean
from engine.sandbox.frames import Artifact, Call, CellFrame, Drop, End, Output, Quiet, Ready, Result

LOOK_S = 0.1
"""How often a pass looks for a cancel request and at its deadline."""

DRAIN_S = 2.0
"""How long a stopped program's last output is waited for; a cancelled one's a quarter of that."""


UNFIT_BYTES = 128 * 1024 * 1024
"""Arguments of calls that are not those for which answers were sent ahead, at most, before the worker gives those up."""

AHEAD_BYTES = 128 * 1024
"""Larger values are not sent before they are asked for."""


@dataclass(frozen=True)
class PassPolicy:
    """What holds for a pass. `deadline` is a time of the monotonic clock, `grace_s` what the cell gets beyond it to end itself.

    `suspend_after_s`: a cell does not wait longer than this for calls that all take longer.
    """

    deadline: float
    grace_s: float = 5.0
    suspend_after_s: float = 120.0
    on_unknown: OnUnknown | None = None
    accept_divergence: bool = False


class Pass:
    """Run it once; afterwards `stop`, `waits_for`, `result`, `causes` and `asked` say what happened.

    `stop` is set when the host ended the pass; `waits_for` names (by `s`) the calls for which the run goes on without a cell;
    `result` is what the entry gave, if it came to that; `causes` are the `s` of the failed calls whose CallErrors left the entry;
    `asked` are the keys of all calls. `progress` is called after every step.
    """

    def __init__(
        self,
        recorder: Recorder,
        *,
        cell: RunCell,
        calls: Calls,
        policy: PassPolicy,
        kept: Kept,
        progress: Callable[[], object],
    ) -> None:
        self.stop: Ending | None = None
        self.waits_for: list[int] = []
        self.result: Result | None = None
        self.causes: list[int] = []
        self.asked: set[CallKey] = set()
        self._recorder = recorder
        self._run = recorder.run
        self._cell = cell
        self._calls = calls
        self._policy = policy
        self._kept = kept
        self._progress = progress
        self._order = CallOrder(frozenset(self._run.spec.pins))
        self._delivery = Delivery()
        self._ahead = Ahead(recorder.history, fits=self._fits_a_frame)
        self._dropped: set[int] = set()
        self._unfit: list[tuple[Call, CallKey]] = []
        self._unfit_bytes = 0
        self._records: dict[int, int] = {}
        self._numbers: dict[int, int] = {}
        self._queued: deque[tuple[Call, CallKey]] = deque()
        self._held: dict[int, tuple[Call, CallKey, Record]] = {}
        self._receiving: asyncio.Task[CellFrame] | None = None
        self._looked = 0.0

    async def run(self) -> None:
        """Go on until the cell's last word, or until the host stops the pass or the run goes on without a cell.

        Raises:
            SandboxError: the cell was lost or broke the protocol.
            EngineFailure: something could not be recorded; nothing was executed without its record.
        """
        try:
            while self.stop is None and not self.waits_for:
                frame = await self._next()
                self._look()
                if self.stop is not None:
                    if isinstance(frame, Output | Artifact):
                        await self._take(frame)
                    break
                if frame is not None and await self._take(frame):
                    return
                await self._go_on()
                self._progress()
            await self._drain()
        finally:
            await self._stop_receiving()

    async def _next(self) -> CellFrame | None:
        """The next frame; None when an execution ended first, or when it is time to look around."""
        tasks = self._calls.tasks
        if not tasks and self._receiving is None:
            return await self._cell.receive_within(LOOK_S)
        if self._receiving is None:
            self._receiving = asyncio.ensure_future(self._cell.receive())
        waited_for: set[asyncio.Future[Any]] = {self._receiving, *tasks}
        await asyncio.wait(waited_for, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
        if not self._receiving.done():
            return None
        received, self._receiving = self._receiving, None
        return received.result()

    async def _stop_receiving(self) -> None:
        receiving, self._receiving = self._receiving, None
        if receiving is not None:
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
        else:
            for seq in self._calls.take_answers():
                self._is_ready(seq)

    async def _take(self, frame: CellFrame) -> bool:
        """Handle one frame; True for the last one."""
        match frame:
            case Ready():
                await self._send_ahead()
            case Call():
                await self._call(frame)
            case Quiet():
                await self._quiet(frame)
            case Drop():
                await self._drop(frame)
            case Output():
                self._kept.output(frame)
            case Artifact():
                self._kept.artifact(frame)
            case Result():
                self.result = frame
                if self._ahead.active:
                    self._judge_unfit()
            case End():
                self._note_causes(frame)
                return True
        return False

    def _note_causes(self, end: End) -> None:
        for number in end.calls:
            record = self._recorder.history.records.get(self._records.get(number, 0))
            if record is not None and isinstance(record.outcome, CallFailed):
                self.causes.append(record.seq)

    # one call

    async def _call(self, call: Call) -> None:
        try:
            self._order.take(call)
        except OutOfOrder as error:
            told = f"the program broke the protocol of its cell ({error.name})"
            text = ErrorText(type=error.name, message=str(error))
            await self._stop_at(call.number, Ending(Status.FAILED, "message", told, text))
            return
        # `encoded` is the host's own: the exchange compared it with what encoding the decoded arguments gives.
        key = CallKey(call.scope, call.fn, call.n, codec.digest(call.encoded))
        self.asked.add(key)
        if self._ahead.active and await self._is_answered(call, key):
            return
        self._delivery.called(call.number, waits=call.waits and not self._ahead.active)
        await self._step(call, key)

    async def _is_answered(self, call: Call, key: CallKey) -> bool:
        """True for a call whose answer is sent ahead, or whose answer must wait until the worker gave those up."""
        fit = self._ahead.fit(call.number, key)
        await self._send_ahead()
        if fit is Fit.ANSWERED:
            record = self._recorder.history.latest(key)
            assert record is not None
            self._records[call.number] = record.seq
        elif fit is Fit.OTHER:
            await self._set_aside(call, key)
        return fit is not Fit.BEYOND

    async def _set_aside(self, call: Call, key: CallKey) -> None:
        """Keep a call that is not the one an answer was sent for until the worker says that it gave those up."""
        self._unfit.append((call, key))
        arguments = codec.text(call.encoded)
        self._unfit_bytes += wire.weight(arguments, len(arguments))
        if len(self._unfit) > wire.OUTSTANDING or self._unfit_bytes > UNFIT_BYTES:
            told = "the program broke the protocol of its cell (call.too_many)"
            text = ErrorText(type="call.too_many", message="calls that differ from the record, without ever waiting")
            await self._stop_at(call.number, Ending(Status.FAILED, "message", told, text))

    def _judge_unfit(self) -> None:
        """The program ended without waiting for calls that differ from the record: what they ask is looked at all the same."""
        for call, key in self._unfit:
            if self.stop is None and call.number not in self._dropped:
                step = self._decided(key, call.fn)
                if isinstance(step, Diverged):
                    self.stop = _diverged(self._compare(call, key, step.record))

    async def _send_ahead(self) -> None:
        for planned in self._ahead.due():
            if planned.record is None:
                await self._cell.reply_ok(planned.number, None, at=0.0, ahead=planned.key)
            else:
                await answer_from(
                    planned.record, cell=self._cell, number=planned.number, run=self._run, ahead=planned.key
                )

    def _fits_a_frame(self, record: Record) -> bool:
        outcome = record.outcome
        return (
            not isinstance(outcome, CallCompleted)
            or not outcome.blob
            or self._run.blobs.size_of(outcome.blob) <= AHEAD_BYTES
        )

    async def _quiet(self, frame: Quiet) -> None:
        if self._ahead.active:
            if frame.ahead is None:
                return  # an answer is on its way
            unfit = {call.number for call, _ in self._unfit}
            for number in self._ahead.untaken(frame.ahead):
                if number in self._dropped:
                    continue
                self._delivery.called(number, waits=False)
                if number not in unfit:
                    self._delivery.ready(number, self._recorder.history.records[self._records[number]].ended_seq)
            for call, key in self._unfit:
                if self.stop is None and call.number not in self._dropped:
                    await self._step(call, key)
        self._delivery.quiet = True

    def _is_running(self, number: int, key: CallKey) -> bool:
        """True for a call that goes on since before this cell."""
        record = self._recorder.history.latest(key)
        if record is None or record.seq not in self._calls.running:
            return False
        self._wait_for(number, record.seq)
        return True

    async def _step(self, call: Call, key: CallKey) -> None:
        if self._is_running(call.number, key):
            return
        step = self._decided(key, call.fn)
        match step:
            case Replay(record):
                self._records[call.number] = record.seq
                self._delivery.ready(call.number, record.ended_seq)
            case Execute():
                await self._execute(call, key)
            case StillOpen(record):
                self._calls.open_question(record.seq)
                self._wait_for(call.number, record.seq)
            case Hold(record):
                self._held[call.number] = (call, key, record)
            case AskPerson(record):
                await self._stop_at(call.number, _ask_person(record))
            case Diverged(record):
                await self._stop_at(call.number, _diverged(self._compare(call, key, record)))
            case _:
                assert_never(step)

    def _decided(self, key: CallKey, fn: str) -> Step:
        return decide(
            self._recorder.history,
            key,
            effects=self._calls.effects(fn),
            on_unknown=self._policy.on_unknown,
            accept_divergence=self._policy.accept_divergence,
        )

    def _compare(self, call: Call, key: CallKey, record: Record) -> Divergence:
        started = record.started
        recorded = self._run.value(started.args, started.args_blob)
        return compare(
            key,
            recorded=recorded,
            asked=call.encoded,
            recorded_site=started.site,
            site=site_of(call),
            moved=asked_elsewhere(self._recorder.history, key),
        )

    async def _execute(self, call: Call, key: CallKey) -> None:
        if self._calls.takes_a_place(call.fn) and (self._queued or not self._calls.has_room):
            self._queued.append((call, key))
        else:
            await self._begin(call, key)

    async def _begin(self, call: Call, key: CallKey) -> None:
        begun = await self._calls.begin(call, key)
        if isinstance(begun, Ending):
            await self._stop_at(call.number, begun)
            return
        self._wait_for(call.number, begun)
        record = self._recorder.history.records[begun]
        self.stop = self.stop or self._calls.full
        if record.outcome is not None:
            self._delivery.ready(call.number, record.ended_seq)

    def _wait_for(self, number: int, seq: int) -> None:
        self._records[number] = seq
        self._numbers[seq] = number

    async def _drop(self, frame: Drop) -> None:
        """The program no longer waits for it: what was not begun never is, and what was begun is ended."""
        self._delivery.drop(frame.call)
        self._dropped.add(frame.call)
        self._held.pop(frame.call, None)
        self._queued = deque(item for item in self._queued if item[0].number != frame.call)
        seq = self._records.get(frame.call, 0)
        if self._numbers.get(seq) == frame.call:
            await self._calls.drop(seq)

    # going on

    async def _go_on(self) -> None:
        """Record what ended, begin what waited for room, answer what is due, and see whether the cell waits in vain."""
        if self._calls.running:
            for seq in await self._calls.collect():
                self._is_ready(seq)
        self.stop = self.stop or self._calls.full
        while self._queued and self.stop is None and self._calls.has_room:
            await self._begin(*self._queued.popleft())
        if self.stop is None and (number := self._delivery.next()) is not None:
            record = self._recorder.history.records[self._records[number]]
            await answer_from(record, cell=self._cell, number=number, run=self._run)
        elif self._delivery.quiet and self.stop is None:
            await self._wait_on()

    def _is_ready(self, seq: int) -> None:
        if seq in self._numbers:
            self._delivery.ready(self._numbers[seq], self._recorder.history.records[seq].ended_seq)

    async def _wait_on(self) -> None:
        """Nothing is there for a program that waits: begin what it gave up before, or go on without a cell."""
        if self._held:
            if (
                not self._calls.tasks and not self._queued
            ):  # whoever answers a question waits for this run, not it for them
                await self._begin_held()
            return
        if not self._calls.running:
            return
        now, patience_s = self._run.clock.monotonic_s(), self._policy.suspend_after_s
        running = self._calls.running.values()
        if all(execution.task is None or now - execution.began_s >= patience_s for execution in running):
            self.waits_for = sorted(self._calls.running)

    async def _begin_held(self) -> None:
        held, self._held = self._held, {}
        for call, key, record in held.values():
            if isinstance(unknown(record, self._calls.effects(call.fn), self._policy.on_unknown), AskPerson):
                await self._stop_at(call.number, _ask_person(record))
                return
            await self._execute(call, key)
            if self.stop is not None:
                return

    # the end

    async def _stop_at(self, number: int, ending: Ending) -> None:
        self.stop = ending
        await self._cell.reply_stop(number, ending.reason)

    async def _drain(self) -> None:
        """Take in what a stopped program still put out. What goes wrong meanwhile changes nothing: the pass is decided."""
        await self._stop_receiving()
        try:
            async with asyncio.timeout(DRAIN_S / 4 if self.stop is CANCELLED else DRAIN_S):
                if self.stop is None:
                    await self._cell.cancel("waiting")
                elif self.stop in (
                    CANCELLED,
                    DEADLINE,
                    self._calls.full,
                ):  # it was told of any other end at the call that made it
                    await self._cell.cancel(self.stop.reason)
                frame = await self._cell.receive()
                while not isinstance(frame, End):
                    if isinstance(frame, Output | Artifact):
                        await self._take(frame)
                    frame = await self._cell.receive()
        except (TimeoutError, SandboxError):
            return


def _ask_person(record: Record) -> Ending:
    told = (
        f"{record.key.fn}() at {record.started.site or 'an unknown place'} was started and its outcome is unknown; "
        "doing it again may do it twice"
    )
    return Ending(Status.INTERRUPTED, "unknown_outcome", told)


def _diverged(found: Divergence) -> Ending:
    told = clean(str(found), MESSAGE_CHARACTERS)
    return Ending(Status.FAILED, "diverged", told.partition("\n")[0], ErrorText(type="Diverged", message=told))
