"""Cells for the gate that answer from a script, with the frames a real exchange gives; `real` in tests/sandbox."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio import to_thread

from engine.errors import SandboxError
from engine.sandbox.frames import CaseResult, CellFrame, End, Ready
from engine.sandbox.jobs import GateJob
from engine.sandbox.outcome import Accounting, Cause, CellEnd

Script = Callable[[GateJob], Sequence[CellFrame | SandboxError]]
"""What a cell says to a job, up to `End`; an error is raised instead."""


def case(at: int, outcome: str = "passed", *, entered: bool = True, detail: str = "", output: str = "") -> CaseResult:
    """One report of the supervisor."""
    return CaseResult(at, outcome, detail, 0.01, output, entered)


def passing(job: GateJob) -> list[CellFrame | SandboxError]:
    """Every case passes and enters the entry; with the entry replaced, every case fails."""
    outcome = "failed" if job.replace_entry else "passed"
    return [Ready(), *(case(at, outcome) for at in range(len(job.cases))), END]


def saying(*frames: CellFrame | SandboxError) -> Script:
    """The same words to whatever job."""
    return lambda job: frames


END = End(cause="exit", detail="returned", exit=0, calls=(), stragglers=0)


def ended(cause: Cause = Cause.EXIT, detail: str = "returned") -> CellEnd:
    """The end of a cell that was removed."""
    return CellEnd("c0123456789abcdef", cause, detail, 0, 0, Accounting())


@dataclass
class ScriptedCells:
    """A factory: the n-th cell follows the n-th script, further ones `passing`. Counts what was opened and closed."""

    scripts: Sequence[Script] = ()
    end: CellEnd = field(default_factory=ended)
    unavailable: SandboxError | None = None
    before: Callable[[], None] = lambda: None
    jobs: list[GateJob] = field(default_factory=list)
    snapshots: list[Path] = field(default_factory=list)
    opened: int = 0
    closed: int = 0

    def __call__(self) -> AbstractAsyncContextManager[ScriptedCell]:
        return self._open()

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[ScriptedCell]:
        if self.unavailable is not None:
            raise self.unavailable
        await to_thread.run_sync(self.before)
        script = self.scripts[self.opened] if self.opened < len(self.scripts) else passing
        self.opened += 1
        try:
            yield ScriptedCell(self, script)
        finally:
            self.closed += 1


@dataclass
class ScriptedCell:
    """One scripted cell."""

    cells: ScriptedCells
    script: Script
    frames: list[CellFrame | SandboxError] = field(default_factory=list)
    image: str = "sha256:" + "1" * 64
    runtime: str = "runc"
    policy_digest: str = "2" * 64

    async def deliver(self, job: GateJob, snapshot: Path) -> None:
        self.cells.jobs.append(job)
        self.cells.snapshots.append(snapshot)
        self.frames = list(self.script(job))

    async def receive(self) -> CellFrame:
        if not self.frames:
            await anyio.sleep_forever()
        frame = self.frames.pop(0)
        if isinstance(frame, SandboxError):
            raise frame
        return frame

    async def finish(self) -> CellEnd:
        return self.cells.end
