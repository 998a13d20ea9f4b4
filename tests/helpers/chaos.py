"""One run, disturbed as often as one likes, and what must hold after every crash and at its end.

Completed calls never run again, what was recorded stays, what is unknown says so, nothing is left running, and the result is the
one of an undisturbed run. What really ran is known from the ledger, not from the run.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engine.clock import SystemClock
from engine.run.decisions import decide_unknown
from engine.run.events import CallCompleted
from engine.run.folder import Run
from engine.run.history import History
from engine.run.projection import result_of, view_of
from engine.run.status import Status
from engine.run.store import RunNotFound, RunStore
from engine.run.view import RunView, calls_of
from engine.sandbox.policy import Runtime
from tests.helpers.crash_checks import check_executions, leftovers
from tests.helpers.crash_programs import answer
from tests.helpers.crash_server import CrashServer, Job
from tests.helpers.ledger import Execution, Ledger

GENERATIONS = 60
"""More than any run takes whose every generation adds something."""


@dataclass
class Stage:
    """Where runs are made and crashed: a home, a server of processes, a ledger. Without `snapshots` cells are scripted."""

    home: Path
    server: CrashServer
    ledger: Ledger
    engine: str = ""
    runtime: Runtime = "runc"
    snapshots: dict[str, Path] = field(default_factory=dict)
    pause_s: float = 0.002
    engine_timeout_s: float = 20.0
    decided: int = 0
    _made: int = 0
    _results: dict[str, Any] = field(default_factory=dict)

    def trial(self, program: str) -> Trial:
        """A new run of a program, which nobody created yet."""
        self._made += 1
        job = Job(
            home=str(self.home),
            run_id=f"20261130T120000Z-{self._made:08x}",
            program=program,
            ledger=self.ledger.address,
            snapshot=str(self.snapshots[program]) if self.snapshots else "",
            engine=self.engine,
            runtime=self.runtime,
            pause_s=self.pause_s,
            engine_timeout_s=self.engine_timeout_s,
        )
        return Trial(self, job)

    def undisturbed(self, program: str) -> Any:
        """What the program gives when nothing happens."""
        if program not in self._results:
            trial = self.trial(program)
            trial.resume()
            assert trial.view().status is Status.COMPLETED, trial.view().message
            self._results[program] = result_of(trial.run)
        return self._results[program]

    def moments(self, program: str) -> list[tuple[str, int]]:
        """Every moment of an undisturbed run, in order: its name, and how many of that name there were."""
        return self.trial(program).moments()


@dataclass
class Trial:
    """One run. `seen` is what its journal held when it was looked at last, `kills` how often it was killed."""

    stage: Stage
    job: Job
    kills: int = 0
    seen: bytes = b""

    @property
    def run(self) -> Run:
        return RunStore(Path(self.job.home), clock=SystemClock()).open(self.job.run_id)

    @property
    def exists(self) -> bool:
        """False before it was created."""
        try:
            return bool(self.run)
        except RunNotFound:
            return False

    def view(self) -> RunView:
        return view_of(self.run)

    def history(self) -> History:
        return self.run.read()[1]

    def standing(self) -> str:
        """What became of it, for a test that expected something else."""
        if self.stage.server.pid:
            return "its process has not ended"
        view = self.view()
        return f"{view.status}, {view.reason or 'no reason'}: {view.message}"

    def executions(self) -> list[Execution]:
        """What the ledger knows of it."""
        return self.stage.ledger.executions(self.job.run_id)

    # what happens to it

    def moments(self, **changes: Any) -> list[tuple[str, int]]:
        """Those of one more process, undisturbed. `changes` of its job, such as the verb."""
        trace = self.stage.home / f"trace-{self.job.run_id}"
        assert self.stage.server.run(replace(self.job, trace=str(trace), **changes)) == 0
        pairs = [line.split() for line in trace.read_text().splitlines()]
        trace.unlink()
        return [(name, int(number)) for name, number in pairs]

    def resume(self) -> int:
        """One generation, undisturbed; the exit code of its process."""
        return self.stage.server.run(self.job)

    def kill_at(self, point: str, nth: int = 1, **changes: Any) -> bool:
        """One generation, killed at a moment; False when that moment did not come. `changes` of its job, such as the verb."""
        status = self.stage.server.run(replace(self.job, act="kill", point=point, nth=nth, **changes))
        assert status in (0, -signal.SIGKILL), f"exit code {status}"
        return self._killed(status)

    def kill_after(self, seconds: float) -> bool:
        """One generation, killed so many seconds after its start; False when it had ended."""
        self.stage.server.start(self.job)
        if self.stage.server.wait(seconds) is None:
            self.stage.server.kill()
        assert self.stage.server.status in (0, -signal.SIGKILL), f"exit code {self.stage.server.status}"
        return self._killed(self.stage.server.status)

    def _killed(self, status: int) -> bool:
        self.kills += status == -signal.SIGKILL
        self.look()
        return status == -signal.SIGKILL

    def start(self, **changes: Any) -> None:
        """Begin a generation, which the caller ends or waits for. `changes` of its job."""
        self.stage.server.start(replace(self.job, **changes))

    def stop_at(self, point: str, nth: int = 1, **changes: Any) -> bool:
        """One generation, stopped at a moment; False when it ended before. The caller lets it go on."""
        self.stage.server.start(replace(self.job, act="stop", point=point, nth=nth, **changes))
        return self.stage.server.wait() == "stopped"

    def go_on(self, *, timeout_s: float = 120) -> int:
        """Let a stopped one go on to its end; the exit code of its process."""
        self.stage.server.go_on()
        assert self.stage.server.wait(timeout_s) == "ended"
        self.look()
        return self.stage.server.status

    def to_the_end(self) -> None:
        """Resume until it completes; what is unknown and may not be repeated is decided, by `rerun` and a value in turns."""
        for _ in range(GENERATIONS):
            assert self.resume() == 0
            self.look()
            view = self.view()
            if view.status is Status.COMPLETED:
                return
            assert (view.status, view.reason) == (Status.INTERRUPTED, "unknown_outcome"), view.message
            self._decide()
        raise AssertionError("it does not come to an end")

    def _decide(self) -> None:
        for record in self.history().records.values():
            if record.outcome is None and not record.rerun and record.key.fn == "grep":
                self.stage.decided += 1
                if self.stage.decided % 2:
                    decide_unknown(self.run, record.seq, what="rerun", by="a test")
                else:
                    value = answer(record.key, {})
                    decide_unknown(self.run, record.seq, what="value", value=value, by="a test")

    # what must hold

    def look(self) -> None:
        """Check what must hold at any moment at which no process executes it."""
        if not self.exists:
            assert self.executions() == []
            return
        run = self.run
        assert not run.is_owned()
        text = run.journal_path.read_bytes()
        whole = text[: text.rfind(b"\n") + 1]
        assert whole.startswith(self.seen), "what was recorded is not there any more"
        self.seen = whole
        history = self.history()
        check_executions(history, self.executions())
        for record in history.records.values():
            if isinstance(record.outcome, CallCompleted):
                run.value(record.outcome.result, record.outcome.blob)
        view = view_of(run)
        assert view.status is not Status.RUNNING
        open_calls = {seq for seq, record in history.records.items() if record.outcome is None}
        shown = {call.seq for call in calls_of(view.calls) if call.status == "unknown"}
        newest = {records[-1].seq for records in history.places.values()}
        assert shown == open_calls & newest, "an interrupted call is not shown as unknown"

    def check_end(self) -> None:
        """Check what must hold when it completed."""
        history, view = self.history(), self.view()
        assert view.status is Status.COMPLETED
        assert result_of(self.run) == self.stage.undisturbed(self.job.program)
        for record in history.records.values():
            assert record.outcome is not None or record.lost, f"call {record.seq} has no end and is not called unknown"
        assert list(leftovers(self.run.folder)) == []
