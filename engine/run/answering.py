"""A call's recorded outcome as the answer that its program gets: the same bytes live, on replay and when a run is verified."""

from __future__ import annotations

from engine.run.cells import RunCell
from engine.run.events import CallCompleted, CallFailed
from engine.run.folder import Run
from engine.run.history import Record
from engine.run.projection import UNENCODABLE


async def answer_from(record: Record, *, cell: RunCell, number: int, run: Run, ahead: str = "") -> None:
    """Answer the call `number` of the cell with the outcome of `record`, which has one. `ahead`: see `RunCell.reply_ok`.

    Raises:
        JournalDamaged: its blob is missing or was changed. SandboxError: the cell is gone.
    """
    at = record.ended_at or 0.0
    match record.outcome:
        case CallCompleted(unencodable="") as outcome:
            await cell.reply_ok(number, run.value(outcome.result, outcome.blob), at=at, ahead=ahead)
        case CallCompleted() as outcome:
            await cell.reply_error(number, UNENCODABLE, outcome.unencodable, "", at=at, ahead=ahead)
        case CallFailed() as outcome:
            await cell.reply_error(number, outcome.type, outcome.message, outcome.traceback, at=at, ahead=ahead)
        case None:
            raise AssertionError(f"call {record.seq} is answered without an outcome")
