"""The parts of one home on one engine, each made when it is first used, and what they are made from.

It loads a layer when something of it is first used, because most commands need one or two of them. It does nothing with them:
`engine.app` and the objects behind it do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from engine.clock import Clock
from engine.settings import Settings

if TYPE_CHECKING:
    from engine.catalog.repos import Catalog
    from engine.catalog.snapshots import Snapshots
    from engine.cells import Cells
    from engine.images import Images
    from engine.models.provider import Tell
    from engine.run.calls import CallHandler
    from engine.run.store import RunStore
    from engine.sandbox.service import Sandbox


@dataclass
class Parts:
    """The object graph; whoever made it closes it."""

    settings: Settings
    clock: Clock
    command: bool = False
    progress: Callable[[str], None] | None = None
    """Told what takes long before a job begins."""

    @cached_property
    def catalog(self) -> Catalog:
        """The published packages: `list`, `show`, `log`, `diff`, `files`, `resolve`."""
        from engine.catalog.repos import Catalog

        return Catalog(self.settings.home)

    @cached_property
    def snapshots(self) -> Snapshots:
        """The read-only trees that runs and gates get copies of."""
        from engine.catalog.snapshots import Snapshots

        return Snapshots(self.settings.home, self.catalog)

    @cached_property
    def runs(self) -> RunStore:
        """The runs of this home as folders: `open`, `newest`, `list`."""
        from engine.run.store import RunStore

        return RunStore(self.settings.home, clock=self.clock)

    @cached_property
    def sandbox(self) -> Sandbox:
        """The container engine, and the cells of this home on it."""
        from engine.sandbox.service import Sandbox

        sandbox = Sandbox.from_settings(self.settings, self.clock)
        sandbox.keep(handing_over=self.command)
        return sandbox

    @cached_property
    def images(self) -> Images:
        """The cell image: `current`, `build`, `export`, `adopt`, `locked_versions`, `update_lock`."""
        from engine.images import Images

        return Images(self.settings.home, self.sandbox.engine)

    @cached_property
    def cells(self) -> Cells:
        """The cells of this home: `ready` before one is opened, `run_cell`, `gate_cell`."""
        from engine.cells import Cells

        return Cells(self.sandbox, self.images, self.snapshots, self.runs, progress=self.progress)

    def handlers(self, model: str, tell: Tell | None) -> Mapping[str, CallHandler]:
        """What executes the recorded calls of a run, by function. `model` "" is none. Raises UsageError for one that cannot be used."""
        from engine.agents import open_handlers
        from engine.models.provider import open_model

        return open_handlers(clock=self.clock, model=open_model(model, tell=tell) if model else None)

    def close(self) -> None:
        """Have used cells removed and close the connections to the engine; `open_app` does it."""
        if "sandbox" in vars(self):
            self.sandbox.close()
