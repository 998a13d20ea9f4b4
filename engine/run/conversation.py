"""The calls that a program makes in one pass: each is replayed, executed or the end of the pass, and answered when it is due.

Owns the order of record, side effect and reply. What it began to execute may outlive it (`executing`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never

from cloche_guest import codec

from engine.run.ahead import Fit
from engine.run.answering import answer_from
from engine.run.calls import CallKey
from engine.run.cells import RunCell
from engine.run.claim import Recorder
from engine.run.delivery import Delivery
from engine.run.divergence import Divergence, asked_elsewhere, compare
from engine.run.early import EarlyAnswers
from engine.run.ending import Ending
from engine.run.events import CallFailed, ErrorText
from engine.run.executing import Calls, site_of
from engine.run.history import Record
from engine.run.order import CallOrder, OutOfOrder
from engine.run.replay import AskPerson, Diverged, Execute, Hold, OnUnknown, Replay, Step, StillOpen, decide, unknown
from engine.run.status import Status
from engine.run.wording import MESSAGE_CHARACTERS, clean
from engine.sandbox.frames import Call, Drop, Quiet


@dataclass(frozen=True)
class Terms:
    """What holds for the calls of a pass. `suspend_after_s`: a cell waits no longer than this for calls that all take longer.

    `on_unknown` and `accept_divergence` are what a person decided, see `engine.run.replay`.
    """

    suspend_after_s: float = 120.0
    on_unknown: OnUnknown | None = None
    accept_divergence: bool = False


class Conversation:
    """Gets what the cell says of calls, and `go_on` after every step, until `stop` or `waits_for` is set.

    `stop` is the end of the pass, of which the program was told where a call made it; `waits_for` names (by `s`) the calls for
    which the run goes on without a cell; `asked` are the keys of all calls.
    """

    def __init__(self, recorder: Recorder, *, cell: RunCell, calls: Calls, terms: Terms) -> None:
        self.stop: Ending | None = None
        self.waits_for: list[int] = []
        self.asked: set[CallKey] = set()
        self._recorder = recorder
        self._run = recorder.run
        self._cell = cell
        self._calls = calls
        self._terms = terms
        self._order = CallOrder(frozenset(self._run.spec.pins))
        self._delivery = Delivery()
        self._early = EarlyAnswers(recorder, cell=cell)
        self._dropped: set[int] = set()
        self._records: dict[int, int] = {}
        self._numbers: dict[int, int] = {}
        self._queued: deque[tuple[Call, CallKey]] = deque()
        self._held: dict[int, tuple[Call, CallKey, Record]] = {}

    # what the cell says

    async def ready(self) -> None:
        """The program begins: what it will ask first is known, if it ran before."""
        await self._early.send()

    async def call(self, call: Call) -> None:
        """The program made a call."""
        try:
            self._order.take(call)
        except OutOfOrder as error:
            await self._stop_at(call.number, _broke_the_protocol(error.name, str(error)))
            return
        # `encoded` is the host's own: the exchange compared it with what encoding the decoded arguments gives.
        key = CallKey(call.scope, call.fn, call.n, codec.digest(call.encoded))
        self.asked.add(key)
        if self._early.active and await self._is_answered(call, key):
            return
        self._delivery.called(call.number, waits=call.waits and not self._early.active)
        await self._step(call, key)

    async def quiet(self, frame: Quiet) -> None:
        """Nothing of the program can go on without an answer."""
        if self._early.active:
            if frame.ahead is None:
                return  # an answer is on its way
            unfit = {call.number for call, _ in self._early.unfit}
            for number in self._early.untaken(frame.ahead):
                if number in self._dropped:
                    continue
                self._delivery.called(number, waits=False)
                if number not in unfit:
                    self._delivery.ready(number, self._recorder.history.records[self._records[number]].ended_seq)
            for call, key in self._early.unfit:
                if self.stop is None and call.number not in self._dropped:
                    await self._step(call, key)
        self._delivery.quiet = True

    async def drop(self, frame: Drop) -> None:
        """The program no longer waits for it: what was not begun never is, and what was begun is ended."""
        self._delivery.drop(frame.call)
        self._dropped.add(frame.call)
        self._held.pop(frame.call, None)
        self._queued = deque(item for item in self._queued if item[0].number != frame.call)
        seq = self._records.get(frame.call, 0)
        if self._numbers.get(seq) == frame.call:
            await self._calls.drop(seq)

    def over(self) -> None:
        """The program ended. Calls that differ from the record, and were never waited for, are looked at all the same."""
        if not self._early.active:
            return
        for call, key in self._early.unfit:
            if self.stop is None and call.number not in self._dropped:
                step = self._decided(key, call.fn)
                if isinstance(step, Diverged):
                    self.stop = _diverged(self._compare(call, key, step.record))

    def failures(self, numbers: Iterable[int]) -> list[int]:
        """The `s` of those of these calls that failed."""
        found = (self._recorder.history.records.get(self._records.get(number, 0)) for number in numbers)
        return [record.seq for record in found if record is not None and isinstance(record.outcome, CallFailed)]

    # what becomes of a call

    async def _is_answered(self, call: Call, key: CallKey) -> bool:
        """True for a call whose answer is sent ahead, or whose answer must wait until the worker gave those up."""
        fit = await self._early.fit(call, key)
        if fit is Fit.ANSWERED:
            record = self._recorder.history.latest(key)
            assert record is not None
            self._records[call.number] = record.seq
        elif self._early.too_many_unfit:
            told = "calls that differ from the record, without ever waiting"
            await self._stop_at(call.number, _broke_the_protocol("call.too_many", told))
        return fit is not Fit.BEYOND

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

    def _is_running(self, number: int, key: CallKey) -> bool:
        """True for a call that goes on since before this cell."""
        record = self._recorder.history.latest(key)
        if record is None or record.seq not in self._calls.running:
            return False
        self._wait_for(number, record.seq)
        return True

    def _decided(self, key: CallKey, fn: str) -> Step:
        return decide(
            self._recorder.history,
            key,
            effects=self._calls.effects(fn),
            on_unknown=self._terms.on_unknown,
            accept_divergence=self._terms.accept_divergence,
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

    async def _stop_at(self, number: int, ending: Ending) -> None:
        self.stop = ending
        await self._cell.reply_stop(number, ending.reason)

    # going on

    def take_answers(self) -> None:
        """Record what persons answered meanwhile."""
        for seq in self._calls.take_answers():
            self._is_ready(seq)

    async def go_on(self) -> None:
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
            # whoever answers a question waits for this run, not it for them
            if not self._calls.tasks and not self._queued:
                await self._begin_held()
            return
        if not self._calls.running:
            return
        now, patience_s = self._run.clock.monotonic_s(), self._terms.suspend_after_s
        running = self._calls.running.values()
        if all(execution.task is None or now - execution.began_s >= patience_s for execution in running):
            self.waits_for = sorted(self._calls.running)

    async def _begin_held(self) -> None:
        held, self._held = self._held, {}
        for call, key, record in held.values():
            if isinstance(unknown(record, self._calls.effects(call.fn), self._terms.on_unknown), AskPerson):
                await self._stop_at(call.number, _ask_person(record))
                return
            await self._execute(call, key)
            if self.stop is not None:
                return


def _broke_the_protocol(name: str, message: str) -> Ending:
    told = f"the program broke the protocol of its cell ({name})"
    return Ending(Status.FAILED, "message", told, ErrorText(type=name, message=message))


def _ask_person(record: Record) -> Ending:
    told = (
        f"{record.key.fn}() at {record.started.site or 'an unknown place'} was started and its outcome is unknown; "
        "doing it again may do it twice"
    )
    return Ending(Status.INTERRUPTED, "unknown_outcome", told)


def _diverged(found: Divergence) -> Ending:
    told = clean(str(found), MESSAGE_CHARACTERS)
    return Ending(Status.FAILED, "diverged", told.partition("\n")[0], ErrorText(type="Diverged", message=told))
