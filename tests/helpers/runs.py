"""Runs for tests: a store in a temporary home, a spec, a clock that moves only when it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from engine.run.calls import CallHandler
from engine.run.folder import Run
from engine.run.lifecycle import drive
from engine.run.spec import RunSpec
from engine.run.store import RunStore
from engine.run.view import RunView
from tests.helpers.cells import ScriptedCells


@dataclass
class StillClock:
    """Stands still; `pass_by` moves both clocks."""

    at: datetime = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
    monotonic: float = 1000.0

    def now(self) -> datetime:
        return self.at

    def monotonic_s(self) -> float:
        return self.monotonic

    def pass_by(self, seconds: float) -> None:
        """Let time go by."""
        self.at += timedelta(seconds=seconds)
        self.monotonic += seconds


@dataclass
class Bench:
    """Everything that driving a run takes. `gone` notes the cells that were proven gone."""

    home: Path
    clock: StillClock = field(default_factory=StillClock)
    gone: list[str] = field(default_factory=list)

    @property
    def store(self) -> RunStore:
        return RunStore(self.home, clock=self.clock)

    def create(self, **changes: Any) -> Run:
        """A new run."""
        return self.store.create(make_spec(**{"created_at": self.clock.now().timestamp(), **changes}))

    async def prove_gone(self, cell_id: str) -> None:
        self.gone.append(cell_id)

    async def drive_async(
        self, run: Run, cells: ScriptedCells, handlers: Mapping[str, CallHandler], **options: Any
    ) -> RunView:
        """One generation."""
        return await drive(
            run, snapshot=self.home, cells=cells, handlers=handlers, prove_gone=self.prove_gone, **options
        )

    def drive(self, run: Run, cells: ScriptedCells, handlers: Mapping[str, CallHandler], **options: Any) -> RunView:
        """One generation, in a loop of its own."""
        return asyncio.run(self.drive_async(run, cells, handlers, **options))


def make_spec(**changes: Any) -> RunSpec:
    """A spec with everything that it needs."""
    fields: dict[str, Any] = {
        "run_id": "20261130T120000Z-00000001",
        "workflow_id": "log_triage",
        "revision": "a" * 40,
        "tree_id": "b" * 40,
        "pins": {"requirements_parse": "c" * 40},
        "snapshot_digest": "d" * 64,
        "task": "do it",
        "seed": "00" * 16,
        "permissions": ("workspace.read",),
        "workspace": "/srv/data",
        "model": "scripted:replies.toml",
        "created_at": 1796040000.0,
    }
    return RunSpec(**{**fields, **changes})
