"""What the gate needs of a cell. `engine.sandbox` has the real ones; the gate itself loads no engine client."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from engine.sandbox.frames import CellFrame
from engine.sandbox.jobs import GateJob
from engine.sandbox.outcome import CellEnd


class GateCell(Protocol):
    """One cell, alive and proven, before any code was delivered. Everything but `finish` may raise SandboxError."""

    @property
    def image(self) -> str:
        """Image id, `sha256:…`."""
        ...

    @property
    def runtime(self) -> str:
        """OCI runtime, e.g. `runc`."""
        ...

    @property
    def policy_digest(self) -> str:
        """SHA-256 of the policy the cell was checked against, 64 hex digits."""
        ...

    async def deliver(self, job: GateJob, snapshot: Path) -> None:
        """Hand over the snapshot and the job."""
        ...

    async def receive(self) -> CellFrame:
        """The next frame; `End` is the last one. Raises CellLost when there will be none; `finish` tells why."""
        ...

    async def finish(self) -> CellEnd:
        """Kill, wait, remove, see absent; may be called at any time, and again."""
        ...


class GateCellFactory(Protocol):
    """Opens one cell for one job; leaving the context destroys it, however it is left."""

    def __call__(self) -> AbstractAsyncContextManager[GateCell]:
        """Raises SandboxError on entering when there is no cell to be had."""
        ...
