"""Cells of one home: what is due before one is opened, opening one, and proof that an old one is gone.

A job that finds a cell waiting needs nothing of the engine: the cell was made for its image and policy, after everything that is
due was done. Then what is due is done afterwards, in the background.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from engine.catalog.snapshots import Snapshots
from engine.errors import CellLost
from engine.images import Images
from engine.run.store import RunStore
from engine.sandbox.launch import Wish
from engine.sandbox.pool import borrowed_cell, candidates, fill, idle_cells
from engine.sandbox.probed import probe_first
from engine.sandbox.reaper import MADE_ELSEWHERE
from engine.sandbox.service import Sandbox

if TYPE_CHECKING:
    from engine.gate.cells import GateCell
    from engine.sandbox.cell import Cell
    from engine.sandbox.policy import Kind

SNAPSHOT_KEPT = timedelta(days=1)
"""How long a snapshot that no run was made from is kept after it was last asked for; it can be made again."""

PROVE_GONE_TRIES, PROVE_GONE_PAUSE_S = 20, 0.25
"""A cell that its owner is removing at this moment is waited for, for five seconds."""


@dataclass
class Cells:
    """Made once per application; `image_id` is known after the first `ready`."""

    sandbox: Sandbox
    images: Images
    snapshots: Snapshots
    runs: RunStore
    progress: Callable[[str], None] | None = None
    image_id: str = ""
    _prepared_for: str | None = None

    async def ready(self, kind: Kind | None = None) -> str:
        """The image id, when a cell can be opened. Asked before anything is recorded that needs one.

        `kind`: what the cell will be for. Where one waits, the engine is not asked.

        Raises:
            SandboxUnavailable: no engine, no image, or a cell of it does not hold (`ProbeNotHeld`). EngineTimeout: the engine hangs.
        """
        if not self.image_id:
            self.image_id = self.images.current().image_id
        if kind is None or self._is_prepared or not await to_thread.run_sync(self._waits, kind):
            await self.prepare()
        elif self.sandbox.keeper is not None:
            self.sandbox.keeper.reap()
        return self.image_id

    async def prepare(self) -> None:
        """Once, and again after the engine was started anew: as `loaded`, and a cell of this kind was attacked. Raises as `ready`."""
        if not self._is_prepared:
            mark = self.sandbox.engine.mark
            await probe_first(self.sandbox, image_id=await self.loaded(), progress=self.progress)
            self._prepared_for = mark

    @property
    def _is_prepared(self) -> bool:
        return self._prepared_for == self.sandbox.engine.mark

    async def loaded(self) -> str:
        """Image loaded, cells of dead owners ended, old snapshots removed; the image id. Raises as `ready`, but for the probe."""
        image = self.images.current()
        await self.images.load(image)
        await to_thread.run_sync(self.sandbox.reap)
        await to_thread.run_sync(self._collect_snapshots)
        self.image_id = image.image_id
        return self.image_id

    def _waits(self, kind: Kind) -> bool:
        return any(
            idle_cells(self.sandbox, wish)
            for wish in candidates(self.sandbox, image_id=self.image_id, kind=kind, deadline_s=self._deadline_s(kind))
        )

    def _deadline_s(self, kind: Kind) -> float:
        settings = self.sandbox.settings
        return settings.gate_timeout_s if kind == "gate" else settings.run_active_s

    def _collect_snapshots(self) -> None:
        def in_use() -> frozenset[str]:
            return frozenset(run.spec.snapshot_digest for run in self.runs.list()[0])

        self.snapshots.collect(in_use=in_use, before=self.sandbox.clock.now() - SNAPSHOT_KEPT)

    # opening

    def run_cell(self, *, run_id: str, generation: int) -> AbstractAsyncContextManager[Cell]:
        """A cell for one generation of a run; after `ready`."""
        return self._borrowed("run", run_id=run_id, generation=generation)

    @asynccontextmanager
    async def gate_cell(self) -> AsyncIterator[GateCell]:
        """A cell for one job of a gate. The engine is asked for nothing before a package came so far that it needs one."""
        await self.ready("gate")
        async with self._borrowed("gate") as cell:
            yield cell

    def _borrowed(self, kind: Kind, *, run_id: str = "", generation: int = 1) -> AbstractAsyncContextManager[Cell]:
        return borrowed_cell(
            self.sandbox,
            image_id=self.image_id,
            kind=kind,
            deadline_s=self._deadline_s(kind),
            run_id=run_id,
            generation=generation,
            prepare=self.prepare,
        )

    async def prove_gone(self, cell_id: str) -> None:
        """Return when nothing of a cell of a dead owner, or of one that is being removed, is left.

        Raises:
            CellElsewhere: another engine made it, and whether it still runs cannot be asked. CellLost, SandboxError: it is still there.
        """
        for attempt in range(PROVE_GONE_TRIES):
            await anyio.sleep(min(attempt, 1) * PROVE_GONE_PAUSE_S)
            await to_thread.run_sync(self.sandbox.reap)
            listed = await to_thread.run_sync(self.sandbox.list_cells)
            mine = next((cell for cell in listed if cell.cell_id == cell_id and cell.container), None)
            if mine is None:
                return
            if mine.state.startswith(MADE_ELSEWHERE) and await to_thread.run_sync(self.sandbox.end_unlisted, cell_id):
                return
        raise CellLost(f"cell {cell_id} of a dead owner cannot be ended.", fix="Try `cloche cells reap`.")

    # afterwards

    async def keep_house(self, kinds: list[Kind]) -> None:
        """What is due after jobs of these kinds, for whoever has the time: as `prepare`, then cells that wait for the next ones."""
        await self.prepare()
        runtime = await self.sandbox.choose_runtime(self.image_id)
        for kind in kinds:
            policy = await self.sandbox.fitting_policy(kind, runtime)
            await fill(self.sandbox, Wish(self.image_id, kind, self._deadline_s(kind), 0, "", policy, policy))
