"""How a cell ended: the cause, whose failure it is, and what it used."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal


class Cause(StrEnum):
    """Why a cell ended, told from evidence (kill record, cgroup counters, events, the supervisor's word), never from an exit code."""

    EXIT = "exit"
    SIGNAL = "signal"
    DEADLINE = "deadline"
    LIMIT_MEMORY = "limit:memory"
    LIMIT_MESSAGES = "limit:messages"
    LIMIT_OUTPUT_FILES = "limit:output_files"
    MESSAGE = "message"  # the worker broke the protocol on its channel; `detail` is the name, e.g. frame.oversized
    CANCELLED = "cancelled"
    OPERATOR = "operator"
    SUPERVISOR_LOST = "supervisor_lost"
    ENGINE_LOST = "engine_lost"


SANDBOX_CAUSES = frozenset({Cause.SUPERVISOR_LOST, Cause.ENGINE_LOST, Cause.OPERATOR})
"""Causes after which nothing is known of the program."""


@dataclass(frozen=True)
class Accounting:
    """What a cell took. Times in seconds; None where the machine gave no figure. `start`: `cold`, or `warm` for one that waited."""

    start: Literal["cold", "warm"] = "cold"
    queue_s: float = 0.0
    start_s: float = 0.0
    run_s: float = 0.0
    teardown_s: float = 0.0
    cpu_s: float | None = None
    throttled_s: float | None = None
    peak_memory_bytes: int | None = None
    peak_processes: int | None = None
    bytes_in: int = 0
    bytes_out: int = 0


@dataclass(frozen=True)
class CellEnd:
    """Final: the container was killed, waited for, removed and seen absent; with two exceptions.

    `left_behind`: that failed, and the reaper has it. `leaving`: the program and all its processes are gone, by the supervisor's
    acknowledged word, and what is left of the cell is being removed; its record stays open until somebody has seen it absent.
    """

    cell_id: str
    cause: Cause
    detail: str
    exit: int | None
    stragglers: int
    accounting: Accounting
    left_behind: bool = False
    leaving: bool = False
    notes: tuple[str, ...] = ()

    @property
    def sandbox_failed(self) -> bool:
        """True when nothing is known of the program."""
        return self.cause in SANDBOX_CAUSES
