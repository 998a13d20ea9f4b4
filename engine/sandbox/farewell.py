"""The end of a cell: brought about, explained from evidence, accounted for, and proven, or left to the reaper by name."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from engine import log
from engine.errors import EngineTimeout, SandboxError
from engine.sandbox.docker import EngineEvent
from engine.sandbox.engine_errors import ContainerGone
from engine.sandbox.evidence import Evidence, decide
from engine.sandbox.frames import End
from engine.sandbox.launch import Launch
from engine.sandbox.outcome import Accounting, Cause, CellEnd
from engine.sandbox.watch import Watch

if TYPE_CHECKING:
    from engine.sandbox.service import Sandbox

LAST_WORD_S = 2.0
"""From the acknowledged last word to the end of the supervisor, before it is killed."""


@dataclass
class Times:
    """Monotonic seconds at which a cell came so far; 0 for never."""

    opened: float = 0.0
    claimed: float = 0.0
    ready: float = 0.0
    delivered: float = 0.0
    ended: float = 0.0


@dataclass
class Farewell:
    """What is known of a cell when it is to end. `take` ends it; blocking."""

    sandbox: Sandbox
    launch: Launch
    watch: Watch | None
    times: Times
    last_word: End | None
    violation: str
    notes: list[str]
    engine_hangs: bool = False

    def take(self) -> CellEnd:
        """End the cell and prove it gone; or, after a clean last word and with somebody to do it, have it removed meanwhile."""
        begun = self._now()
        keeper = self.sandbox.keeper
        if keeper is not None and self._ended_well():
            end = self._end(self._evidence_of_word(), begun, leaving=True)
            keeper.remove(self._remove, leave=self._leave)
            return end
        evidence = self._evidence()
        gone = self._remove()
        return self._end(evidence, begun, left_behind=not gone)

    def _ended_well(self) -> bool:
        word = self.last_word
        return word is not None and word.cause == Cause.EXIT and not self.violation and self.watch is not None

    def _end(self, evidence: Evidence, begun: float, *, left_behind: bool = False, leaving: bool = False) -> CellEnd:
        verdict = decide(evidence)
        end = CellEnd(
            cell_id=self.launch.cell_id,
            cause=verdict.cause,
            detail=verdict.detail,
            exit=None if evidence.end is None else evidence.end.exit,
            stragglers=0 if evidence.end is None else evidence.end.stragglers,
            accounting=self._accounting(begun),
            left_behind=left_behind,
            leaving=leaving,
            notes=(*verdict.notes, *self.notes),
        )
        log.info("cell.ended", cell=end.cell_id, cause=str(end.cause), left_behind=left_behind, leaving=leaving)
        return end

    def _remove(self) -> bool:
        """True when the engine shows that nothing is left; everything on this machine is given back. Raises nothing of the engine's."""
        gone = self._destroy()
        if self.watch is not None:
            self.watch.stop()
        self.launch.release(gone=gone)
        return gone

    def _leave(self) -> None:
        """Give up what is left, for the reaper."""
        if self.watch is not None:
            self.watch.stop()
        self.launch.release(gone=False)

    def _destroy(self) -> bool:
        """An engine that hung a moment ago is not waited for again."""
        try:
            if self.engine_hangs:
                raise EngineTimeout("the engine hangs.")
            ended = self.watch is not None and (
                self.watch.gone.wait(LAST_WORD_S) if self._ended_well() else self.watch.gone.is_set()
            )
            self.launch.destroy(ended=ended)
        except SandboxError as error:
            self.notes.append(f"left behind: {error.message}")
            log.warning("cell.left_behind", cell=self.launch.cell_id, error=error.code)
            return False
        return True

    def _evidence_of_word(self) -> Evidence:
        """After a clean last word the counters as they stood when it came are all that is left to ask."""
        assert self.watch is not None
        counters = self.watch.counters
        return Evidence(end=self.last_word, oom_kills=counters.oom_kills, pids_refused=counters.pids_refused)

    def _evidence(self) -> Evidence:
        """Bring the cell to its end and collect what there is to know, while the container still exists."""
        watch = self.watch
        if watch is None:
            return Evidence(killed=Cause.CANCELLED)
        answers = True
        state: dict[str, Any] = {}
        events: tuple[EngineEvent, ...] = ()
        try:
            if self.last_word is None or not watch.gone.wait(LAST_WORD_S):
                watch.sample()
                watch.kill(Cause.CANCELLED)
            if self.last_word is None and not watch.killed:
                state, events = self._look_into()
        except SandboxError as error:
            answers = False
            self.engine_hangs = isinstance(error, EngineTimeout)
            self.notes.append(f"{error.code}: {error.message}")
        counters = watch.counters
        return Evidence(
            end=self.last_word,
            killed=watch.killed,
            violation=self.violation,
            oom_kills=counters.oom_kills,
            oom_flag=bool(state.get("OOMKilled")),
            pids_refused=counters.pids_refused,
            killed_by_other=not state or any(event.action in ("kill", "destroy") for event in events),
            engine_answers=answers,
        )

    def _look_into(self) -> tuple[dict[str, Any], tuple[EngineEvent, ...]]:
        """What the engine says of a container that ended without us; nothing when it does not even exist any more."""
        engine, container = self.sandbox.engine, self.launch.container
        try:
            engine.wait(container, timeout_s=5.0)
            state = dict(engine.inspect(container)["State"])
        except ContainerGone:
            return {}, ()
        return state, engine.events(container, since=self.launch.started_at_unix - 1, until=time.time() + 1)

    def _accounting(self, begun: float) -> Accounting:
        times, link = self.times, self.launch.open_link
        ended = times.ended or begun
        counters = self.watch.counters if self.watch is not None else None
        start: Literal["cold", "warm"] = "warm" if self.launch.is_taken else "cold"
        return Accounting(
            start=start,
            queue_s=max(0.0, (times.claimed or begun) - times.opened),
            start_s=max(0.0, (times.ready or begun) - (times.claimed or begun)),
            run_s=max(0.0, ended - times.delivered) if times.delivered else 0.0,
            teardown_s=max(0.0, self._now() - ended),
            cpu_s=counters.cpu_s if counters else None,
            throttled_s=counters.throttled_s if counters else None,
            peak_memory_bytes=counters.peak_memory_bytes if counters else None,
            peak_processes=counters.peak_processes if counters else None,
            bytes_in=link.bytes_in if link is not None else 0,
            bytes_out=link.bytes_out if link is not None else 0,
        )

    def _now(self) -> float:
        return self.sandbox.clock.monotonic_s()
