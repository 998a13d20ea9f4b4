"""How a generation ended, decided from what the cell said and from how it was seen to end. Pure.

Program failed, sandbox failed and engine failed never share a reason.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import SandboxError
from engine.run.events import ErrorText
from engine.run.status import Status
from engine.run.wording import MESSAGE_CHARACTERS, TRACEBACK_CHARACTERS, clean, clean_end
from engine.sandbox.frames import GuestError, Result
from engine.sandbox.outcome import Cause, CellEnd


@dataclass(frozen=True)
class Ending:
    """The status that a generation ends with; `waiting` ends no run. `completed` alone comes with the program's value."""

    status: Status
    reason: str = ""
    message: str = ""
    error: ErrorText | None = None


COMPLETED = Ending(Status.COMPLETED)
CANCELLED = Ending(Status.CANCELLED, "cancelled", "the run was cancelled")
INTERRUPTED = Ending(Status.INTERRUPTED, "stopped", "the process that executed the run was told to stop")
WAITING = Ending(Status.WAITING, "waiting", "the run waits without a cell")
DEADLINE = Ending(Status.FAILED, "deadline", "the run used up its time")


def settle(result: Result | None, end: CellEnd) -> Ending:
    """How a pass ended that the host did not stop itself."""
    match end.cause:
        case Cause.EXIT:
            return _exited(result, end)
        case Cause.SIGNAL:
            return Ending(Status.FAILED, "program", f"the workflow process was ended by {end.detail or 'a signal'}")
        case Cause.DEADLINE:
            return DEADLINE
        case Cause.LIMIT_MEMORY | Cause.LIMIT_MESSAGES | Cause.LIMIT_OUTPUT_FILES:
            what = end.cause.removeprefix("limit:").replace("_", " ")
            return Ending(Status.FAILED, end.cause.value, f"the program went past its limit of {what}")
        case Cause.MESSAGE:
            told = f"the program broke the protocol of its cell ({end.detail})"
            return Ending(Status.FAILED, "message", told)
        case Cause.CANCELLED:
            return Ending(Status.FAILED, "sandbox", "the cell was cancelled by something else than this run")
        case Cause.SUPERVISOR_LOST | Cause.ENGINE_LOST | Cause.OPERATOR:
            told = f"the cell was lost ({end.cause.value}{': ' if end.detail else ''}{end.detail})"
            return Ending(Status.FAILED, "sandbox", clean(told, MESSAGE_CHARACTERS))


def _exited(result: Result | None, end: CellEnd) -> Ending:
    if result is not None and result.error is not None:
        return Ending(Status.FAILED, "program", _first_words(result.error), error_text(result.error))
    if result is None:
        return Ending(Status.FAILED, "program", f"the workflow process ended with exit code {end.exit} and no result")
    if end.exit:
        return Ending(
            Status.FAILED, "program", f"the workflow process ended with exit code {end.exit} after its result"
        )
    return COMPLETED


def error_text(error: GuestError) -> ErrorText:
    """The bounded form in which an exception of the program is recorded."""
    return ErrorText(
        type=clean(error.type, 200),
        message=clean(error.message, MESSAGE_CHARACTERS),
        traceback=clean_end(error.traceback, TRACEBACK_CHARACTERS),
    )


def _first_words(error: GuestError) -> str:
    return clean(f"{error.type}: {error.message}".strip().partition("\n")[0], 500)


def sandbox_failed(error: SandboxError) -> Ending:
    """The ending that a failure of the sandbox makes; nothing is known of the program."""
    told = ErrorText(type=error.code, message=clean(error.message, MESSAGE_CHARACTERS))
    return Ending(Status.FAILED, "sandbox", clean(f"{error.message} {error.fix}".strip(), MESSAGE_CHARACTERS), told)


def engine_failed(error: Exception) -> Ending:
    """The ending that a failure of Cloche's own side makes."""
    told = ErrorText(type=type(error).__name__, message=clean(str(error), MESSAGE_CHARACTERS))
    return Ending(Status.FAILED, "engine", clean(str(error) or type(error).__name__, 500), told)
