"""What the gate needs of a cell, and cells of the real sandbox in that form."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from engine.sandbox.cell import Cell, open_cell
from engine.sandbox.frames import CellFrame
from engine.sandbox.jobs import GateJob
from engine.sandbox.outcome import CellEnd
from engine.sandbox.service import Sandbox


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


@dataclass(frozen=True)
class SandboxCells:
    """A GateCellFactory over real cells of one image."""

    sandbox: Sandbox
    image_id: str

    def __call__(self) -> AbstractAsyncContextManager[GateCell]:
        return self._open()

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[GateCell]:
        deadline_s = self.sandbox.settings.gate_timeout_s
        async with open_cell(self.sandbox, image_id=self.image_id, kind="gate", deadline_s=deadline_s) as cell:
            yield _SandboxCell(cell, self.image_id)


@dataclass(frozen=True)
class _SandboxCell:
    cell: Cell
    image: str

    @property
    def runtime(self) -> str:
        return self.cell.policy.runtime

    @property
    def policy_digest(self) -> str:
        return self.cell.policy.digest

    async def deliver(self, job: GateJob, snapshot: Path) -> None:
        await self.cell.deliver(job, snapshot)

    async def receive(self) -> CellFrame:
        return await self.cell.receive()

    async def finish(self) -> CellEnd:
        return await self.cell.finish()
