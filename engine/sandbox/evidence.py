"""Why a cell ended, decided from what was seen. A pure function; exit codes are not evidence.

137 is the exit code of our own kill, of the kernel's out-of-memory killer, of anybody else's `docker kill` and of a program
that chose that number (measured, both runtimes). So: the supervisor's last word, our own kill record, the cgroup's counters
polled while the cell lived, the engine's inspection and events.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.sandbox.frames import End
from engine.sandbox.outcome import Cause

NAMED = 5
"""Entries of the output folder that a note names."""


@dataclass(frozen=True)
class Evidence:
    """What is known when a cell is over.

    `killed`: why we killed it while it still ran ("" when we did not). `violation`: how it broke the exchange. `oom_flag`: the
    engine says that the kernel killed for memory. `killed_by_other`: the engine saw a kill or removal that was not ours.
    `engine_answers`: it did when the loss was looked into.
    """

    end: End | None = None
    killed: str = ""
    violation: str = ""
    oom_kills: int = 0
    oom_flag: bool = False
    pids_refused: int = 0
    killed_by_other: bool = False
    engine_answers: bool = True


@dataclass(frozen=True)
class Verdict:
    """The cause, one detail about it, and notes for the accounting."""

    cause: Cause
    detail: str
    notes: tuple[str, ...] = ()


def decide(seen: Evidence) -> Verdict:
    """The cause of the end; the first of: broken exchange, last word, our kill, memory, engine, somebody's kill, unknown."""
    cause, detail = _cause(seen)
    return Verdict(cause, detail, _notes(seen, cause))


def _cause(seen: Evidence) -> tuple[Cause, str]:
    out_of_memory = seen.oom_kills > 0 or seen.oom_flag
    if seen.violation:
        return Cause.SUPERVISOR_LOST, seen.violation
    if seen.end is not None:
        if seen.end.cause == Cause.SIGNAL and seen.end.detail == "SIGKILL" and out_of_memory:
            return Cause.LIMIT_MEMORY, "the main process was killed for memory"
        return Cause(seen.end.cause), seen.end.detail
    if seen.killed:
        cause = Cause.DEADLINE if seen.killed == Cause.DEADLINE else Cause.CANCELLED
        return cause, "the host ended the cell"
    if out_of_memory:
        return Cause.LIMIT_MEMORY, "the whole cell was killed for memory"
    if not seen.engine_answers:
        return Cause.ENGINE_LOST, "the engine does not answer"
    if seen.killed_by_other:
        return Cause.OPERATOR, "somebody else killed or removed the container"
    return Cause.SUPERVISOR_LOST, "the supervisor ended without a last word"


def _notes(seen: Evidence, cause: Cause) -> tuple[str, ...]:
    notes = []
    if seen.oom_kills and cause is not Cause.LIMIT_MEMORY:
        notes.append(f"{seen.oom_kills} processes were killed for memory")
    if seen.pids_refused:
        notes.append(f"{seen.pids_refused} processes or threads were refused")
    if seen.end is not None and seen.end.stragglers:
        notes.append(f"{seen.end.stragglers} processes were left and killed")
    if seen.end is not None and seen.end.usage.get("skipped_files"):
        notes.append(_left_out(seen.end))
    return tuple(notes)


def _left_out(end: End) -> str:
    """Which entries of the output folder did not become output files, and why; the first of them."""
    named = end.usage.get("skipped")
    shown = named[:NAMED] if isinstance(named, list) else []
    count = int(end.usage["skipped_files"])
    more = ["…"] if count > len(shown) else []
    return f"{count} entries of /tmp/output were left out: {'; '.join([*shown, *more])}"
