"""Runs from the outside: begun, gone on with and forked, each executed in a cell until it ends or stops.

It chooses what a run is executed with, snapshot, handlers and limits, and checks that before anything is recorded. How a run
proceeds is `engine.run`'s; what its owner decides about it is `engine.interventions`'.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyio import to_thread

from engine.errors import UsageError
from engine.models.provider import absolute_model
from engine.parts import Parts
from engine.run.fork import forked_spec, inherit, permissions_of
from engine.run.generation import Choices, Limits
from engine.run.lifecycle import check_task, drive, refuse_cancelled
from engine.run.projection import view_of
from engine.run.replay import OnUnknown
from engine.run.start import Inputs, check_snapshot, check_workspace, new_spec
from engine.run.status import Status

if TYPE_CHECKING:
    from engine.catalog.snapshots import PinnedSnapshot
    from engine.models.provider import Tell
    from engine.run.calls import CallHandler
    from engine.run.folder import Run
    from engine.run.view import RunView

    Watch = Callable[[RunView], None]


@dataclass(frozen=True)
class Executions:
    """Of the runs of one home. Behind `engine.app.App`, whose methods of these names have no other contract."""

    parts: Parts

    async def run(
        self,
        reference: str,
        task: Any = "",
        *,
        workspace: Path | None = None,
        model: str = "",
        on_unknown: str | None = None,
        session: str = "default",
        by: str = "",
        progress: Watch | None = None,
        tell: Tell | None = None,
    ) -> RunView:
        """Execute `ID[@REV]` with `task` in a new run; returns its view whatever its status.

        `task`: any value that calls can hold (docs/reference/codec.md). `workspace`: directory that the file calls see
        (default: the current one). `on_unknown`: `rerun` or `halt`, see docs/concepts/runs.md. `by`: who decided that, for the
        record. `progress` gets a view at most every 500 ms; `tell` gets what only the owner's terminal may show (a prompt
        that no scripted reply fits).

        Raises:
            NotFound, NotAuthorised, CorruptEntry: about the package.
            UsageError: task, workspace, model, session or `on_unknown`.
            SandboxUnavailable: there is no engine or image; no run was made.
            StorageFull, EngineFailure: the record could not be written.
        """
        choices = _choices(on_unknown, by=by)
        chosen = absolute_model(model or self.parts.settings.model)
        inputs = Inputs.checked(task, session=session, workspace=workspace or Path.cwd(), model=chosen)
        handlers = self.parts.handlers(chosen, tell)
        snapshot = await to_thread.run_sync(self.parts.snapshots.for_revision, *self.parts.catalog.resolve(reference))
        spec = new_spec(snapshot, inputs, settings=self.parts.settings, now=self.parts.clock.now())
        check_task(spec, self._limits())
        await self.parts.cells.ready("run")
        return await self._drive(self.parts.runs.create(spec), snapshot.path, handlers, choices, progress)

    async def resume(
        self,
        run_id: str,
        *,
        on_unknown: str | None = None,
        accept_divergence: bool = False,
        raise_cap: int | None = None,
        by: str = "",
        progress: Watch | None = None,
        tell: Tell | None = None,
    ) -> RunView:
        """Go on with a run where it stopped, on its own snapshot and workspace; a completed one is returned as it is.

        Nothing is chosen anew but the image: the current one, whose id the generation records.

        Raises:
            RunNotFound: there is none. RunCancelled: it was cancelled. RunOwned: another process executes it.
            WorkspaceGone: its workspace is not there. UsageError: its model cannot be used, or a choice is none.
            NotFound, NotAuthorised, CorruptEntry, SnapshotChanged: its revision or a pin of it is not to be had any more.
            SandboxError: there is no cell to be had, or an old one could not be proven gone.
            In all these cases the run is as it was.
        """
        run = self.parts.runs.open(run_id)
        choices = _choices(on_unknown, by=by, accept_divergence=accept_divergence, raise_cap=raise_cap)
        ended = run.final_status()
        if ended is Status.COMPLETED:
            return view_of(run)
        if ended is not None:
            refuse_cancelled(run_id, ended)
        check_workspace(run.spec)
        handlers = self.parts.handlers(run.spec.model, tell)
        snapshot = await to_thread.run_sync(self._snapshot_of, run)
        await self.parts.cells.ready("run")
        return await self._drive(run, snapshot.path, handlers, choices, progress)

    async def fork(
        self,
        run_id: str,
        seq: int,
        *,
        revision: str = "",
        progress: Watch | None = None,
        tell: Tell | None = None,
    ) -> RunView:
        """Execute a new run that begins with what `run_id` recorded before its call `seq`, on its revision or another one.

        The source stays as it is. Task, seed, workspace, model and cap are its own.

        Raises:
            RunNotFound, CallNotFound: there is none. RunOwned: the source is being executed.
            JournalDamaged: the source cannot be read, also behind the call.
            WorkspaceGone, SandboxError and those about the package: as `resume`; no run was made.
        """
        source = self.parts.runs.open(run_id)
        check_workspace(source.spec)
        handlers = self.parts.handlers(source.spec.model, tell)
        snapshot = await to_thread.run_sync(partial(self._snapshot_of, source, revision))
        held = permissions_of(source.spec, snapshot)
        refused = frozenset(name for name, one in handlers.items() if one.permission and one.permission not in held)
        inherited = await to_thread.run_sync(partial(inherit, source, seq, refused=refused))
        await self.parts.cells.ready("run")
        spec = forked_spec(source.spec, inherited, snapshot=snapshot, now=self.parts.clock.now())
        made = self.parts.runs.create(spec, inherited=inherited)
        return await self._drive(made, snapshot.path, handlers, _choices(None, by=""), progress)

    async def _drive(
        self, run: Run, snapshot: Path, handlers: Mapping[str, CallHandler], choices: Choices, watch: Watch | None
    ) -> RunView:
        return await drive(
            run,
            snapshot=snapshot,
            cells=self.parts.cells.run_cell,
            handlers=handlers,
            prove_gone=self.parts.cells.prove_gone,
            limits=self._limits(),
            choices=choices,
            watch=watch,
        )

    def _limits(self) -> Limits:
        return Limits(
            value_bytes=self.parts.settings.value_bytes,
            record_bytes=self.parts.settings.record_bytes,
            output_bytes=self.parts.settings.output_bytes,
            suspend_after_s=self.parts.settings.suspend_after_s,
        )

    def _snapshot_of(self, run: Run, revision: str = "") -> PinnedSnapshot:
        if revision:
            return self.parts.snapshots.for_revision(*self.parts.catalog.resolve(f"{run.spec.workflow_id}@{revision}"))
        snapshot = self.parts.snapshots.for_revision(run.spec.workflow_id, run.spec.revision)
        check_snapshot(run.spec, snapshot)
        return snapshot


def _choices(
    on_unknown: str | None, *, by: str, accept_divergence: bool = False, raise_cap: int | None = None
) -> Choices:
    if on_unknown not in (None, *OnUnknown):
        raise UsageError(f"{on_unknown!r} is no choice for calls of unknown outcome.", fix="Use rerun or halt.")
    chosen = None if on_unknown is None else OnUnknown(on_unknown)
    return Choices(on_unknown=chosen, accept_divergence=accept_divergence, raise_cap=raise_cap, by=by)
