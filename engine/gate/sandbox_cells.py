"""Cells of the real sandbox in the form that the gate takes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from engine.gate.cells import GateCell
from engine.sandbox.cell import Cell, open_cell
from engine.sandbox.frames import CellFrame
from engine.sandbox.jobs import GateJob
from engine.sandbox.outcome import CellEnd
from engine.sandbox.service import Sandbox


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
