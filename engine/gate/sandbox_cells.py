"""Cells of the real sandbox for the gate; apart from `cells`, so that the gate itself loads no engine client."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from engine.gate.cells import GateCell
from engine.sandbox.pool import borrowed_cell
from engine.sandbox.service import Sandbox


@dataclass(frozen=True)
class SandboxCells:
    """A GateCellFactory: one cell of an image per job, bounded by the sandbox's own `gate_timeout_s`."""

    sandbox: Sandbox
    image_id: str

    def __call__(self) -> AbstractAsyncContextManager[GateCell]:
        deadline_s = self.sandbox.settings.gate_timeout_s
        return borrowed_cell(self.sandbox, image_id=self.image_id, kind="gate", deadline_s=deadline_s)
