"""What a run needs of a cell. `engine.sandbox` has the real one; the run loop knows no container."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol

from engine.sandbox.frames import CellFrame
from engine.sandbox.jobs import RunJob
from engine.sandbox.outcome import CellEnd


class RunCell(Protocol):
    """One cell, alive and proven, before any code was delivered. Everything but `finish` may raise SandboxError."""

    @property
    def cell_id(self) -> str: ...

    @property
    def image(self) -> str: ...

    @property
    def runtime(self) -> str: ...

    async def deliver(self, job: RunJob, snapshot: Path) -> None:
        """Hand over the snapshot and the job."""
        ...

    async def receive(self) -> CellFrame:
        """The next frame; `End` is the last one. May be cancelled and asked again without losing a frame."""
        ...

    async def receive_within(self, seconds: float) -> CellFrame | None:
        """The next frame, or None when none came in that time."""
        ...

    async def reply_ok(self, number: int, encoded: Any, *, at: float, ahead: str = "") -> None:
        """Give the call `number` its value; `at` is the time of its record, which the program's clock then shows.

        `ahead`: the key of the call that it is meant for (`engine.run.calls.key_digest`), when it is sent before the call was made.
        """
        ...

    async def reply_error(
        self, number: int, type_name: str, message: str, traceback: str, *, at: float, ahead: str = ""
    ) -> None:
        """Have the call `number` raise CallError; `at` and `ahead` as above."""
        ...

    async def reply_stop(self, number: int, reason: str) -> None:
        """End the program at the call `number`, without an answer."""
        ...

    async def cancel(self, reason: str) -> None:
        """Ask the supervisor to kill everything else and to end."""
        ...

    async def finish(self) -> CellEnd:
        """Kill, wait, remove, see absent; may be called at any time, and again."""
        ...


class CellFactory(Protocol):
    """Opens a cell for one generation of a run; leaving the context destroys it, however it is left."""

    def __call__(self, *, run_id: str, generation: int) -> AbstractAsyncContextManager[RunCell]:
        """Raises SandboxError on entering when there is no cell to be had."""
        ...
