"""Sends the answers that `ahead` plans, and keeps the calls that are not those which the answers were sent for.

The worker says how many of the answers it took only when it waits. Until then such a call can be neither executed nor refused: what
the program was told before it is not known.
"""

from __future__ import annotations

from cloche_guest import codec, wire

from engine.run.ahead import Ahead, Fit
from engine.run.answering import answer_from
from engine.run.calls import CallKey
from engine.run.cells import RunCell
from engine.run.claim import Recorder
from engine.run.events import CallCompleted
from engine.run.history import Record
from engine.sandbox.frames import Call

UNFIT_BYTES = 128 * 1024 * 1024
"""Arguments of calls that are not those for which answers were sent ahead, at most, before the worker gives those up."""

AHEAD_BYTES = 128 * 1024
"""Larger values are not sent before they are asked for."""


class EarlyAnswers:
    """Those of one pass. `unfit` are the calls that none of them is for, in the order in which they were made."""

    def __init__(self, recorder: Recorder, *, cell: RunCell) -> None:
        self.unfit: list[tuple[Call, CallKey]] = []
        self._run = recorder.run
        self._cell = cell
        self._ahead = Ahead(recorder.history, fits=self._fits_a_frame)
        self._unfit_bytes = 0

    @property
    def active(self) -> bool:
        """True until the worker said how many of them it took."""
        return self._ahead.active

    @property
    def too_many_unfit(self) -> bool:
        """True when the program made more such calls than one that ever waits could make."""
        return len(self.unfit) > wire.OUTSTANDING or self._unfit_bytes > UNFIT_BYTES

    async def send(self) -> None:
        """Send those that are due."""
        for planned in self._ahead.due():
            if planned.record is None:
                await self._cell.reply_ok(planned.number, None, at=0.0, ahead=planned.key)
            else:
                await answer_from(
                    planned.record, cell=self._cell, number=planned.number, run=self._run, ahead=planned.key
                )

    async def fit(self, call: Call, key: CallKey) -> Fit:
        """What a call, the next one, is to them; an unfit one is kept."""
        fit = self._ahead.fit(call.number, key)
        await self.send()
        if fit is Fit.OTHER:
            self.unfit.append((call, key))
            arguments = codec.text(call.encoded)
            self._unfit_bytes += wire.weight(arguments, len(arguments))
        return fit

    def untaken(self, taken: int) -> list[int]:
        """The worker took the first `taken` and gave up the others: gives the made calls that got none. Not active any more."""
        return self._ahead.untaken(taken)

    def _fits_a_frame(self, record: Record) -> bool:
        outcome = record.outcome
        return (
            not isinstance(outcome, CallCompleted)
            or not outcome.blob
            or self._run.blobs.size_of(outcome.blob) <= AHEAD_BYTES
        )
