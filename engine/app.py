"""The whole of Cloche from Python: one object graph, opened and closed as a context manager.

    with open_app() as app:
        published = anyio.run(app.publish, Path("examples/requirements_parse"))
        view = anyio.run(app.run, "requirements_parse", "anyio==4.9.0")
        print(view.status, app.result(view.run_id))
        for entry in app.catalog.list().entries:
            print(entry.workflow_id, entry.revision)

Reading is synchronous; whatever opens a cell is a coroutine, best run in an event loop of its own (see `engine.sandbox.cell`).
Errors are those of `engine.errors`. This module composes; it decides nothing that a layer below could decide. It loads a layer
when something of it is first used, because most commands need one or two of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from engine import log
from engine.clock import Clock, SystemClock
from engine.errors import ClocheError, EngineFailure, SandboxError, UsageError
from engine.files import make_directory
from engine.settings import Settings, load

if TYPE_CHECKING:
    from engine.catalog.repos import Catalog
    from engine.catalog.snapshots import PinnedSnapshot, Snapshots
    from engine.cells import Cells
    from engine.doctor import Finding
    from engine.gate.publish import Services
    from engine.images import Images
    from engine.models.provider import Tell
    from engine.package.contract import GatedPackage, PublishedRevision
    from engine.package.validate import Validation
    from engine.run.calls import CallHandler
    from engine.run.folder import Run
    from engine.run.generation import Choices, Limits
    from engine.run.store import RunStore
    from engine.run.verdict import Verdict
    from engine.run.view import RunView
    from engine.sandbox.probe_report import ProbeReport
    from engine.sandbox.reaper import ListedCell, Reaped
    from engine.sandbox.service import Sandbox

    Watch = Callable[[RunView], None]

T = TypeVar("T")


@dataclass(frozen=True)
class Published:
    """A publication: the revision, its gate report (the statement kept with it), and what the owner should know."""

    revision: PublishedRevision
    report: dict[str, Any]
    notes: tuple[str, ...]


@contextmanager
def open_app(settings: Settings | None = None, *, clock: Clock | None = None, command: bool = False) -> Iterator[App]:
    """The object graph for these settings (default: environment and settings.toml), closed when the block is left.

    `command`: the process is about to end after it, and leaves the removal of used cells and the making of idle ones to a process
    of their own when they are not done by then.

    Nothing is asked of the container engine before a method needs it. Events from `settings.log_level` on go to stderr.

    Raises:
        UsageError: a setting is unusable. StorageFull, EngineFailure: the home cannot be made.
    """
    chosen = settings or load()
    log.show_from(chosen.log_level)
    make_directory(chosen.home)
    app = App(chosen, clock or SystemClock(), command=command)
    try:
        yield app
    finally:
        app.close()


@dataclass
class App:
    """One home on one engine. Made by `open_app`."""

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

    def close(self) -> None:
        """Have used cells removed and close the connections to the engine; `open_app` does it."""
        if "sandbox" in vars(self):
            self.sandbox.close()

    # packages

    def validate(self, directory: Path, *, authored: bool = False) -> Validation:
        """Every diagnostic of a directory; reads only, runs nothing. Raises NotFound or UsageError for no directory."""
        from engine.package.freeze import freeze
        from engine.package.validate import validate

        return validate(freeze(directory), authored=authored)

    async def test(self, directory: Path, *, repin: bool = False) -> GatedPackage:
        """Run a package's behaviour tests as publication does; publishes nothing. Raises as `engine.gate.publish.publish`."""
        from engine.gate.publish import gate_directory

        return await gate_directory(directory, services=self._services(), repin=repin)

    async def publish(self, directory: Path, *, replace: bool = False, repin: bool = False) -> Published:
        """Publish a package whose tests pass in the sandbox. Raises as `engine.gate.publish.publish`."""
        from engine.gate.publish import publish, read_gate_report

        revision = await publish(directory, services=self._services(), replace=replace, repin=repin)
        report = read_gate_report(self.catalog, revision.workflow_id, revision.revision)
        return Published(revision, report, self._notes(revision))

    def gate_report(self, workflow_id: str, revision: str) -> dict[str, Any] | None:
        """The statement kept with a revision; None when there is none. For reading; nothing trusts it."""
        from engine.gate.publish import ReportMissing, read_gate_report

        try:
            return read_gate_report(self.catalog, workflow_id, revision)
        except ReportMissing:
            return None

    def _notes(self, revision: PublishedRevision) -> tuple[str, ...]:
        summary = self.catalog.summary(revision.workflow_id, revision.revision)
        if {"network", "workspace.read"} <= set(summary.permissions):
            return ("network together with workspace.read is a way for data to leave this machine.",)
        return ()

    def _services(self) -> Services:
        from engine.gate.publish import Services

        return Services(self.catalog, self.snapshots, self.cells.gate_cell, self.settings, self.clock)

    # runs

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
        from engine.models.provider import absolute_model
        from engine.run.lifecycle import check_task
        from engine.run.start import Inputs, new_spec

        choices = _choices(on_unknown, by=by)
        chosen = absolute_model(model or self.settings.model)
        inputs = Inputs.checked(task, session=session, workspace=workspace or Path.cwd(), model=chosen)
        handlers = self._handlers(chosen, tell)
        snapshot = await _in_thread(self.snapshots.for_revision, *self.catalog.resolve(reference))
        spec = new_spec(snapshot, inputs, settings=self.settings, now=self.clock.now())
        check_task(spec, self._limits())
        await self.cells.ready("run")
        return await self._drive(self.runs.create(spec), snapshot.path, handlers, choices, progress)

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
        from engine.run.lifecycle import refuse_cancelled
        from engine.run.projection import view_of
        from engine.run.start import check_workspace
        from engine.run.status import Status

        run = self.runs.open(run_id)
        choices = _choices(on_unknown, by=by, accept_divergence=accept_divergence, raise_cap=raise_cap)
        ended = run.final_status()
        if ended is Status.COMPLETED:
            return view_of(run)
        if ended is not None:
            refuse_cancelled(run_id, ended)
        check_workspace(run.spec)
        handlers = self._handlers(run.spec.model, tell)
        snapshot = await _in_thread(self._snapshot_of, run)
        await self.cells.ready("run")
        return await self._drive(run, snapshot.path, handlers, choices, progress)

    async def cancel(self, run_id: str, *, by: str = "") -> RunView:
        """Cancel a run for good, whoever executes it. Raises RunNotFound, RunEndedAlready, SandboxError."""
        from engine.run.decisions import cancel

        return await cancel(self.runs.open(run_id), by=by, prove_gone=self.cells.prove_gone)

    def decide(self, run_id: str, seq: int, what: str, *, value: Any = None, by: str = "") -> RunView:
        """Decide about the call of unknown outcome that `runs show` numbers `seq`: `rerun`, `treat-as-failed`, `value`.

        `value` is in codec form. Raises RunNotFound, and as `engine.run.decisions.decide_unknown`; UsageError for a bad value.
        """
        from engine.run.decisions import decide_unknown
        from engine.run.projection import view_of

        run = self.runs.open(run_id)
        decide_unknown(run, seq, what=what, value=self._given(value), by=by)
        return view_of(run)

    def answer(self, run_id: str, seq: int | None, value: Any, *, by: str = "") -> bool:
        """Answer the question that `runs show` numbers `seq`, or the only open one, with `value` in codec form.

        True when a resume goes on with it; False when another process executes the run, takes the answer and goes on by itself.

        Raises RunNotFound, and as `engine.run.decisions.answer`; UsageError for a value that the question does not allow.
        """
        from engine.agents.waits import checked_answer
        from engine.run.decisions import answer, open_question

        run = self.runs.open(run_id)
        number = open_question(run) if seq is None else seq
        return answer(run, number, self._given(value), check=checked_answer, by=by)

    def _given(self, value: Any) -> Any:
        from cloche_guest import codec

        from engine.run.blobs import text_of

        try:
            codec.check(value)
        except codec.CodecError as error:
            raise UsageError(
                f"the value cannot be recorded: {error}.", fix="docs/reference/codec.md lists the types."
            ) from error
        if (size := len(text_of(value))) > self.settings.value_bytes:
            raise UsageError(f"the value has {size:,} bytes; a value has at most {self.settings.value_bytes:,}.")
        return value

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
        from engine.run.fork import forked_spec, inherit
        from engine.run.start import check_workspace

        source = self.runs.open(run_id)
        check_workspace(source.spec)
        inherited = await _in_thread(inherit, source, seq)
        handlers = self._handlers(source.spec.model, tell)
        snapshot = await _in_thread(partial(self._snapshot_of, source, revision))
        await self.cells.ready("run")
        spec = forked_spec(source.spec, inherited, snapshot=snapshot, now=self.clock.now())
        made = self.runs.create(spec, inherited=inherited)
        return await self._drive(made, snapshot.path, handlers, _choices(None, by=""), progress)

    async def verify(self, run_id: str, *, revision: str = "") -> Verdict:
        """Run a recorded program again without executing any call, on its revision or another one, and compare.

        Raises:
            RunNotFound: there is none. JournalDamaged: it cannot be read.
            NotFound, NotAuthorised, CorruptEntry: about the package.
            SandboxError: there is no cell to be had, or it was lost.
        """
        from engine.run.verify import Subject, verify

        run = self.runs.open(run_id)
        kept = await _in_thread(self.snapshots.digest_of_kept, run.spec.snapshot_digest)
        wanted = revision or run.spec.revision
        found = await _in_thread(self._snapshot_at, run.spec.workflow_id, wanted)
        await self.cells.ready("run")
        subject = Subject(
            found.path,
            revision=found.revision or "",
            digest=found.digest,
            stored=kept,
            dependencies=frozenset(found.pins),
            chosen=bool(revision),
        )
        return await verify(run, subject, cells=self.cells.run_cell, deadline_s=self.settings.run_active_s)

    async def verify_runs(
        self, workflow_id: str, *, revision: str = "", limit: int | None = None
    ) -> tuple[list[Verdict], list[tuple[str, ClocheError]]]:
        """Hold the newest `limit` recorded runs of a package against one revision, the active one by default.

        Gives a verdict for each, newest first, and what was wrong with those that could not be compared, by run id.

        Raises:
            NotFound, NotAuthorised, CorruptEntry: about the package. SandboxUnavailable: there is no cell to be had.
        """
        wanted = (await _in_thread(self._snapshot_at, workflow_id, revision)).revision or ""
        await self.cells.ready("run")
        runs, broken = self.runs.list()
        verdicts: list[Verdict] = []
        problems: list[tuple[str, ClocheError]] = [("", error) for error in broken]
        for run in [run for run in runs if run.spec.workflow_id == workflow_id][:limit]:
            try:
                verdicts.append(await self.verify(run.run_id, revision=wanted))
            except (EngineFailure, SandboxError) as error:
                problems.append((run.run_id, error))
        return verdicts, problems

    def _snapshot_at(self, workflow_id: str, revision: str) -> PinnedSnapshot:
        reference = f"{workflow_id}@{revision}" if revision else workflow_id
        return self.snapshots.for_revision(*self.catalog.resolve(reference))

    def view(self, run_id: str) -> RunView:
        """The run as it stands. Raises RunNotFound, JournalDamaged."""
        from engine.run.projection import view_of

        return view_of(self.runs.open(run_id))

    def views(self, *, session: str = "", limit: int | None = None) -> tuple[list[RunView], list[EngineFailure]]:
        """The newest `limit` runs, of one session or of all, and what was wrong with those that cannot be read."""
        from engine.run.projection import view_of

        runs, broken = self.runs.list(session=session)
        views = []
        for run in runs[:limit]:
            try:
                views.append(view_of(run))
            except EngineFailure as error:
                broken.append(error)
        return views, broken

    def result(self, run_id: str) -> Any:
        """The result of a completed run in codec form, else None. Raises RunNotFound, JournalDamaged."""
        from engine.run.projection import result_of

        return result_of(self.runs.open(run_id))

    async def _drive(
        self, run: Run, snapshot: Path, handlers: Mapping[str, CallHandler], choices: Choices, watch: Watch | None
    ) -> RunView:
        from engine.run.lifecycle import drive

        return await drive(
            run,
            snapshot=snapshot,
            cells=self.cells.run_cell,
            handlers=handlers,
            prove_gone=self.cells.prove_gone,
            limits=self._limits(),
            choices=choices,
            watch=watch,
        )

    def _limits(self) -> Limits:
        from engine.run.generation import Limits

        return Limits(
            value_bytes=self.settings.value_bytes,
            record_bytes=self.settings.record_bytes,
            output_bytes=self.settings.output_bytes,
            suspend_after_s=self.settings.suspend_after_s,
        )

    def _handlers(self, model: str, tell: Tell | None) -> Mapping[str, CallHandler]:
        from engine.agents import open_handlers
        from engine.models.provider import open_model

        return open_handlers(clock=self.clock, model=open_model(model, tell=tell) if model else None)

    def _snapshot_of(self, run: Run, revision: str = "") -> PinnedSnapshot:
        from engine.run.start import check_snapshot

        if revision:
            return self._snapshot_at(run.spec.workflow_id, revision)
        snapshot = self.snapshots.for_revision(run.spec.workflow_id, run.spec.revision)
        check_snapshot(run.spec, snapshot)
        return snapshot

    # sandbox

    async def doctor(self) -> list[Finding]:
        """Find out by trying what is there and what is missing."""
        from engine.doctor import examine

        return await examine(self.settings, self.sandbox, self.images)

    async def probe(
        self,
        *,
        only: Iterable[str] = (),
        groups: Iterable[str] = (),
        progress: Callable[[str], None] | None = None,
    ) -> ProbeReport:
        """Attack a cell, and an unprotected container as the control; all attempts, or those named and those of the groups.

        Raises:
            UsageError: there is no such attempt or group. SandboxError: the probe could not be carried out.
        """
        from engine.gate.probe_packages import probe_packages
        from engine.sandbox.attempts import select
        from engine.sandbox.probe_programs import probe_programs
        from engine.sandbox.probes import probe

        chosen, image_id = select(only=only, groups=groups), await self.cells.loaded()
        runtime = await self.sandbox.choose_runtime(image_id)
        report = await probe(self.sandbox, image_id=image_id, runtime=runtime, chosen=chosen, progress=progress)
        programs = await probe_programs(
            self.sandbox, image_id=image_id, runtime=runtime, chosen=chosen, progress=progress
        )
        packages = await probe_packages(
            self.sandbox, image_id=image_id, runtime=runtime, chosen=chosen, progress=progress
        )
        return report.with_rows([*programs, *packages])

    def list_cells(self) -> list[ListedCell]:
        """Every cell of this home."""
        return self.sandbox.list_cells()

    def pool(self) -> dict[str, int]:
        """What the pool of this home did so far: `engine.sandbox.tally`."""
        from engine.sandbox import tally

        return tally.read(self.settings.home)

    def reap(self, *, idle: bool = False) -> list[Reaped]:
        """End cells without an owner now; with `idle` also those that wait for a job."""
        return self.sandbox.reap(idle=idle)


def _choices(
    on_unknown: str | None, *, by: str, accept_divergence: bool = False, raise_cap: int | None = None
) -> Choices:
    from engine.run.generation import Choices
    from engine.run.replay import OnUnknown

    if on_unknown not in (None, *OnUnknown):
        raise UsageError(f"{on_unknown!r} is no choice for calls of unknown outcome.", fix="Use rerun or halt.")
    chosen = None if on_unknown is None else OnUnknown(on_unknown)
    return Choices(on_unknown=chosen, accept_divergence=accept_divergence, raise_cap=raise_cap, by=by)


async def _in_thread(work: Callable[..., T], *arguments: Any) -> T:
    from anyio import to_thread

    return await to_thread.run_sync(partial(work, *arguments))
