"""One generation: a cell, a pass of the program through it, and the record of how both ended."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import anyio
from cloche_guest import codec

from engine import log
from engine.errors import CellLost, EngineFailure, SandboxError
from engine.run.cells import CellFactory, RunCell
from engine.run.claim import Recorder
from engine.run.conversation import Terms
from engine.run.ending import CANCELLED, DEADLINE, INTERRUPTED, WAITING, Ending, engine_failed, sandbox_failed, settle
from engine.run.events import CallUnknown, CellEnded, CellStarted, Decision, Event, RunWaiting
from engine.run.executing import CallBounds, Calls
from engine.run.folder import Stored
from engine.run.handover import run_finished
from engine.run.kept import Kept
from engine.run.passing import Pass
from engine.run.projection import Shown, project, write_state
from engine.run.replay import OnUnknown, unasked
from engine.run.spec import job_of
from engine.run.status import Status
from engine.run.view import RunView
from engine.run.wording import clean
from engine.sandbox.outcome import Cause, CellEnd

STATE_S = 0.5
"""state.json is not rewritten more often than this while a run goes on, nor for more than a twentieth of the time."""


@dataclass(frozen=True)
class Limits:
    """Bounds of the operator. `output_bytes` is per stream and generation, `record_bytes` for journal and blobs of a run.

    `suspend_after_s`: a cell waits no longer than this for calls that all take longer. `let_finish_s`: so long are calls that are
    being executed waited for when the run stops for a reason that has nothing to do with them.
    """

    value_bytes: int = 64 * 1024 * 1024
    record_bytes: int = 256 * 1024 * 1024
    output_bytes: int = 8 * 1024 * 1024
    grace_s: float = 5.0
    suspend_after_s: float = 120.0
    let_finish_s: float = 5.0

    @property
    def calls(self) -> CallBounds:
        """Those of the calls."""
        return CallBounds(value_bytes=self.value_bytes, record_bytes=self.record_bytes)


@dataclass(frozen=True)
class Choices:
    """What a person decided for this generation: see `engine.run.replay` and `runs resume` in docs/reference/cli.md."""

    on_unknown: OnUnknown | None = None
    accept_divergence: bool = False
    raise_cap: int | None = None
    by: str = ""


@dataclass
class Attempt:
    """One generation that is begun; `to_its_end` executes it."""

    recorder: Recorder
    snapshot: Path
    cells: CellFactory
    calls: Calls
    limits: Limits
    choices: Choices
    watch: Callable[[RunView], None] | None
    shown_at: float = float("-inf")
    shown: Shown = field(default_factory=Shown)
    pause_s: float = STATE_S

    def __post_init__(self) -> None:
        self.run = self.recorder.run
        self.clock = self.run.clock
        self.began = self.clock.monotonic_s()

    async def to_its_end(self) -> RunView:
        """Execute it; whatever its end is, it is recorded."""
        self._show()
        try:
            ending, passed = await self._generation()
            if passed is not None and passed.waits_for and ending is WAITING:
                self._wait(passed.waits_for)
            else:
                cut_short = await self.calls.let_finish(self._patience_s(ending), unless=self.run.cancel_path.exists)
                self.finish(CANCELLED if cut_short else ending, passed)
        except asyncio.CancelledError:
            await self._abandon()
            with suppress(EngineFailure):  # what passes on is the cancellation
                self.finish(INTERRUPTED, None)
            raise
        except SandboxError as error:
            await self._abandon()
            self.finish(sandbox_failed(error), None)
        except Exception as error:
            await self._abandon()
            with suppress(EngineFailure):  # the first failure is the one to tell
                self.finish(engine_failed(error), None)
            raise
        return self._show()

    def _patience_s(self, ending: Ending) -> float:
        """What is paid for should be kept, unless nobody will ask for it or a person said stop."""
        unwanted = ending in (CANCELLED, DEADLINE) or ending.status is Status.COMPLETED
        return 0.0 if unwanted else self.limits.let_finish_s

    async def _abandon(self) -> None:
        with anyio.CancelScope(shield=True):
            await self.calls.abandon()

    def _wait(self, calls: list[int]) -> None:
        records = self.recorder.history.records
        reason: Literal["person", "slow"] = "person" if all(records[seq].is_question for seq in calls) else "slow"
        self.recorder.record(RunWaiting(reason=reason, calls=calls, active_s=self._active_s()))
        log.info("run.waiting", run=self.run.run_id, reason=reason, calls=len(calls))

    def _active_s(self) -> float:
        return round(self.clock.monotonic_s() - self.began, 6)

    async def _generation(self) -> tuple[Ending, Pass | None]:
        left = self._time_left()
        if left <= 0:
            return DEADLINE, None
        if self.run.cancel_path.exists():
            return CANCELLED, None
        generation = self.recorder.history.generation
        async with self.cells(run_id=self.run.run_id, generation=generation) as cell:
            self.recorder.record(CellStarted(cell=cell.cell_id, image=cell.image, runtime=cell.runtime))
            kept = Kept(self.run.folder, generation, self.limits.output_bytes)
            passing = self._pass(cell, kept, left)
            failure: SandboxError | None = None
            try:
                if self.run.cancel_path.exists():
                    passing.end(CANCELLED)
                else:
                    await cell.deliver(job_of(self.run.spec, deadline_s=left), self.snapshot)
                    await passing.run()
            except SandboxError as error:
                failure = error
            except BaseException:
                with anyio.CancelScope(shield=True), suppress(SandboxError):
                    await self._end_cell(cell, kept)
                raise
            with anyio.CancelScope(shield=True):
                gone = await self._end_cell(cell, kept, set_aside=bool(passing.waits_for))
            return self._ending(passing, gone, failure), passing

    def _pass(self, cell: RunCell, kept: Kept, left: float) -> Pass:
        terms = Terms(
            suspend_after_s=self.limits.suspend_after_s,
            on_unknown=self.choices.on_unknown,
            accept_divergence=self.choices.accept_divergence,
        )
        return Pass(
            self.recorder,
            cell=cell,
            calls=self.calls,
            terms=terms,
            ends_at=self.clock.monotonic_s() + left + self.limits.grace_s,
            kept=kept,
            progress=self._show_when_due,
        )

    async def _end_cell(self, cell: RunCell, kept: Kept, *, set_aside: bool = False) -> CellEnd:
        """Have the cell gone and that recorded. A cell that cannot be proven gone keeps its record open for the next owner.

        `set_aside`: the run goes on without it, so that its processes were meant to be ended.
        """
        gone = await cell.finish()
        usage = {name: value for name, value in vars(gone.accounting).items() if value}
        ended = CellEnded(
            cell=cell.cell_id,
            cause=gone.cause.value,
            detail=clean(gone.detail, 500),
            exit=gone.exit,
            stragglers=0 if set_aside else gone.stragglers,
            left=gone.left_behind or gone.leaving,
            notes=[] if set_aside and not gone.left_behind else [clean(note, 500) for note in gone.notes],
            usage=usage,
        )
        self.recorder.record(*kept.close(), ended)
        return gone

    def _ending(self, passing: Pass, gone: CellEnd, failure: SandboxError | None) -> Ending:
        if passing.stop is not None:
            return passing.stop
        if passing.waits_for:
            return WAITING
        if failure is None:
            return settle(passing.result, gone)
        limits = (Cause.DEADLINE, Cause.LIMIT_MEMORY, Cause.LIMIT_MESSAGES, Cause.LIMIT_OUTPUT_FILES)
        if isinstance(failure, CellLost) and gone.cause in limits:
            return settle(None, gone)
        return sandbox_failed(failure)

    def _time_left(self) -> float:
        """Seconds of active time and of total time that are left, the smaller one."""
        active = sum(generation.active_s for generation in self.recorder.history.generations[:-1])
        return min(self.run.spec.active_s - active, self.total_left_s())

    def total_left_s(self) -> float:
        """Seconds until the run is over, waiting included."""
        return self.run.spec.total_s - (self.clock.now().timestamp() - self.run.spec.created_at)

    def finish(self, ending: Ending, passed: Pass | None = None) -> None:
        """Record how it ended, and that nobody will learn how the calls that it began did."""
        history = self.recorder.history
        events: list[Event] = [CallUnknown(of=record.seq) for record in history.open_records()]
        fields: dict[str, Any] = {"active_s": self._active_s()}
        if ending is CANCELLED:
            events.append(Decision(what="cancel", by=self._canceller()))
        if ending.status is Status.COMPLETED and passed is not None and passed.result is not None:
            fields |= self._result(passed.result.encoded).named("result", "blob")
            fields["unasked"] = unasked(history, passed.asked)[:100]
        elif passed is not None and passed.causes and ending.reason == "program":
            fields["cause"], fields["also"] = passed.causes[0], passed.causes[1:]
        self.recorder.record(*events, run_finished(ending, **fields))
        log.info("run.finished", run=self.run.run_id, status=ending.status.value, reason=ending.reason)
        if ending is CANCELLED:
            self.run.cancel_path.unlink(missing_ok=True)

    def _result(self, encoded: Any) -> Stored:
        codec.check(encoded)
        return self.run.keep(encoded)

    def _canceller(self) -> str:
        try:
            found = json.loads(self.run.cancel_path.read_bytes())
            return str(found["by"]) if isinstance(found, dict) else ""
        except (OSError, ValueError, KeyError):
            return ""

    def _show_when_due(self) -> None:
        if self.clock.monotonic_s() - self.shown_at >= self.pause_s:
            self._show()

    def _show(self) -> RunView:
        """Bring state.json and the watcher up to date."""
        before = self.clock.monotonic_s()
        history = self.recorder.history
        view = project(self.run, history, owned=history.finished is None, shown_before=self.shown)
        with suppress(EngineFailure):  # a copy; the journal is what counts
            write_state(self.run, view, size=self.recorder.size, head=self.recorder.head)
        if self.watch is not None:
            self.watch(view)
        self.shown_at = self.clock.monotonic_s()
        self.pause_s = max(STATE_S, 20 * (self.shown_at - before))
        return view
