"""One pass of a program against a record, without executing anything: what it asks, what it gets, where it differs.

Owns no cell: `verify` opens and destroys it. The first difference in a call ends the pass, because whatever follows may follow
from it.
"""

from __future__ import annotations

from typing import Any

from cloche_guest import codec

from engine.run.answering import answer_from
from engine.run.calls import CallKey
from engine.run.cells import RunCell
from engine.run.delivery import Delivery
from engine.run.divergence import asked_elsewhere, compare
from engine.run.ending import Ending, settle
from engine.run.events import CallCompleted, CallFailed, RunFinished
from engine.run.folder import Run
from engine.run.history import History, Record
from engine.run.order import CallOrder, OutOfOrder
from engine.run.recorded_order import RecordedOrder
from engine.run.status import Status
from engine.run.verdict import Difference, What
from engine.run.wording import clean
from engine.sandbox.frames import Call, CellFrame, Drop, End, Quiet, Result
from engine.sandbox.outcome import CellEnd

SHOWN_CHARACTERS = 600

SURPLUS_TOLD = 20
"""Surplus records that are told one by one; a note says how many more there are."""


class Check:
    """Run it once, then `close` it; `differences`, `notes`, `matched` (calls asked for as recorded) and `end` tell.

    `end` is the recorded end, when it tells how the program ended. `revised`: the program is another revision than the recorded
    one, and what it returns may differ. `dependencies` are the workflow ids that it pins.
    """

    def __init__(
        self, run: Run, history: History, *, cell: RunCell, dependencies: frozenset[str], revised: bool
    ) -> None:
        self.differences: list[Difference] = []
        self.notes: list[str] = []
        self.matched = 0
        self.end = _end_of_program(history)
        self._run = run
        self._history = history
        self._cell = cell
        self._revised = revised
        self._order = CallOrder(dependencies)
        self._recorded = RecordedOrder(history)
        self._delivery = Delivery()
        self._asked: set[CallKey] = set()
        self._records: dict[int, Record] = {}
        self._unrecorded: list[Call] = []
        self._unanswered = sum(records[-1].outcome is not None for records in history.places.values())
        self._result: Result | None = None
        self._last: End | None = None
        self._stuck = False

    async def run(self) -> None:
        """Go on to the program's end, to the end of the record, or to the first difference.

        Raises:
            SandboxError: the cell was lost or broke the protocol of frames.
            JournalDamaged: a recorded value cannot be read.
        """
        while not (self._stuck or self.differences or self._last or self._is_done):
            self._take(await self._cell.receive())
            await self._go_on()

    @property
    def _is_done(self) -> bool:
        """True when a record that has no end of the program has nothing more to give."""
        return self.end is None and self._unanswered == 0

    def _take(self, frame: CellFrame) -> None:
        match frame:
            case Call():
                self._call(frame)
            case Quiet():
                self._delivery.quiet = True
            case Drop():
                self._delivery.drop(frame.call)
                self._unrecorded = [call for call in self._unrecorded if call.number != frame.call]
            case Result():
                self._result = frame
            case End():
                self._last = frame

    def _call(self, call: Call) -> None:
        try:
            self._order.take(call)
        except OutOfOrder as error:
            self._differs(What.PROTOCOL, f"{_words(call)} cannot be made there ({error})", call)
            return
        key = CallKey(call.scope, call.fn, call.n, codec.digest(call.encoded))
        self._asked.add(key)
        self._delivery.called(call.number, waits=call.waits)
        record = self._history.latest(key)
        if record is not None:
            self._match(call, record)
        elif others := self._history.at(key):
            self._other_arguments(call, key, others[-1])
        else:  # it may have waited for room, and been given up before it was begun
            self._unrecorded.append(call)

    def _match(self, call: Call, record: Record) -> None:
        self.matched += 1
        later = self._recorded.made(record)
        if later is not None:
            told = f"{_words(call)} is made after {_recorded_words(later)}, and was recorded before it"
            self._differs(What.ORDER, told, call, seq=record.seq, recorded=f"before call {later.seq}")
            return
        self._records[call.number] = record
        if record.outcome is not None:
            self._delivery.ready(call.number, record.ended_seq)

    def _other_arguments(self, call: Call, key: CallKey, record: Record) -> None:
        recorded = self._run.value(record.started.args, record.started.args_blob)
        found = compare(
            key,
            recorded=recorded,
            asked=call.encoded,
            recorded_site=record.started.site,
            site=call.site,
            moved=asked_elsewhere(self._history, key),
        )
        self._differs(
            What.ARGUMENT,
            f"{_words(call)} asks something else than its record, at {found.where}",
            call,
            seq=record.seq,
            recorded=found.recorded,
            asked=found.asked,
            where=found.where,
            cause="" if self._revised else found.cause,
        )

    def _missing(self, call: Call) -> None:
        instead = next((record for record in self._unasked() if record.key.scope == call.scope), None)
        self._differs(
            What.MISSING,
            f"{_words(call)} has no record",
            call,
            seq=instead.seq if instead else 0,
            recorded=self._shown_record(instead) if instead else "",
            asked=f"{call.fn}({_shown(call.encoded)})",
        )

    def _differs(self, what: What, message: str, call: Call, **more: Any) -> None:
        place = {"scope": call.scope, "fn": call.fn, "n": call.n, "site": clean(call.site, 200)}
        self.differences.append(Difference(what=what, message=message, **place, **more))

    # answers

    async def _go_on(self) -> None:
        number = self._delivery.next()
        if number is not None:
            record = self._records[number]
            self._unanswered -= 1
            self._recorded.answered(record)
            if not self._is_done:
                await answer_from(record, cell=self._cell, number=number, run=self._run)
        elif self._delivery.quiet:
            self._stuck = True

    # the end

    def close(self, gone: CellEnd) -> None:
        """Compare how the program ended, and what of the record it never asked for. `gone` is how its cell was seen to end."""
        if self.differences:
            return
        if self._last is not None and self._unrecorded and self.end is not None:
            self._missing(self._unrecorded[0])
        elif self._last is not None:
            self._compare_ends(settle(self._result, gone), self._last)
        elif self._stuck and (self.end is not None or (self._unrecorded and self._unasked())):
            self._waits_in_vain()
        if not self.differences and not self._stops_at_a_second_attempt():
            self._surplus()

    def _waits_in_vain(self) -> None:
        if self._unrecorded:
            self._missing(self._unrecorded[0])
            return
        waiting = [self._records[number] for number in sorted(self._delivery.waiting) if number in self._records]
        told = "the program waits for an answer, and its record goes on without one"
        first = waiting[0] if waiting else None
        place = {"seq": first.seq, **_place(first), "site": first.started.site} if first else {}
        self.differences.append(Difference(what=What.MISSING, message=told, **place))

    def _stops_at_a_second_attempt(self) -> bool:
        """True when the record ends at a call that was being made again: what followed its first attempt may never come."""
        return any(
            record.outcome is None and any(one.outcome is not None for one in self._history.at(record.key))
            for record in self._records.values()
        )

    def _unasked(self) -> list[Record]:
        """Completed records that were never asked for, in order. One that a later record replaced is not looked for."""
        newest = (records[-1] for records in self._history.places.values())
        found = [one for one in newest if isinstance(one.outcome, CallCompleted) and one.key not in self._asked]
        return sorted(found, key=lambda record: record.seq)

    def _surplus(self) -> None:
        found = self._unasked()
        for record in found[:SURPLUS_TOLD]:
            told = f"{_recorded_words(record)} is recorded and never asked for"
            shown = self._shown_record(record)
            place = {"seq": record.seq, **_place(record), "site": record.started.site}
            self.differences.append(Difference(what=What.SURPLUS, message=told, recorded=shown, **place))
        if len(found) > SURPLUS_TOLD:
            self.notes.append(f"{len(found) - SURPLUS_TOLD} more records were never asked for")

    def _compare_ends(self, now: Ending, last: End) -> None:
        end = self.end
        if end is None:
            return
        if not _same_end(end, now):
            self.differences.append(
                Difference(
                    what=What.ENDING,
                    message="the program ends in another way than recorded",
                    recorded=_ending_words(end.status, end.message),
                    asked=_ending_words(now.status, now.message),
                )
            )
        elif end.status is Status.COMPLETED:
            self._compare_results(end)
        else:
            self._compare_causes(end, last)

    def _compare_results(self, end: RunFinished) -> None:
        assert self._result is not None, "a completed program gave a result"
        recorded = self._run.value(end.result, end.blob)
        if codec.digest(recorded) == codec.digest(self._result.encoded):
            return
        before, after = _shown(recorded), _shown(self._result.encoded)
        if self._revised:
            self.notes.append(f"it returns {clean(after, 200)}; the recorded revision returned {clean(before, 200)}")
            return
        told = "the program returns something else than recorded"
        self.differences.append(Difference(what=What.RESULT, message=told, recorded=before, asked=after))

    def _compare_causes(self, end: RunFinished, last: End) -> None:
        recorded = [end.cause, *end.also] if end.cause else []
        now = [
            self._records[number].seq
            for number in last.calls
            if number in self._records and isinstance(self._records[number].outcome, CallFailed)
        ]
        if recorded != now:
            told = "the program fails by another call than recorded"
            self.differences.append(
                Difference(what=What.ENDING, message=told, recorded=_calls_words(recorded), asked=_calls_words(now))
            )

    def _shown_record(self, record: Record) -> str:
        arguments = self._run.value(record.started.args, record.started.args_blob)
        return f"{record.key.fn}({_shown(arguments)})"


def _end_of_program(history: History) -> RunFinished | None:
    """The recorded end, when the program itself came to one."""
    end = history.finished
    told = end is not None and (
        end.status is Status.COMPLETED or (end.status, end.reason) == (Status.FAILED, "program")
    )
    return end if told else None


def _same_end(end: RunFinished, now: Ending) -> bool:
    """True for the same exception, whatever lines its traceback names, and without one for the same words."""
    if (end.status, end.reason) != (now.status, now.reason):
        return False
    if end.error is None or now.error is None:
        return end.error is now.error and end.message == now.message
    return (end.error.type, end.error.message) == (now.error.type, now.error.message)


def _ending_words(status: Status, message: str) -> str:
    return f"{status.value}: {message}" if message else status.value


def _calls_words(seqs: list[int]) -> str:
    return f"call {', '.join(map(str, seqs))}" if seqs else "no call"


def _place(record: Record) -> dict[str, Any]:
    return {"scope": record.key.scope, "fn": record.key.fn, "n": record.key.n}


def _words(call: Call) -> str:
    return f"{call.fn}() number {call.n} in {call.scope} at {call.site or 'an unknown place'}"


def _recorded_words(record: Record) -> str:
    return f"call {record.seq}, {record.key.fn}() number {record.key.n} in {record.key.scope}"


def _shown(encoded: Any) -> str:
    return clean(codec.text(encoded), SHOWN_CHARACTERS)
