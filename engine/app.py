"""The whole of Cloche from Python: one object graph, opened and closed as a context manager.

    with open_app() as app:
        published = anyio.run(app.publish, Path("examples/requirements_parse"))
        view = anyio.run(app.run, "requirements_parse", "anyio==4.9.0")
        print(view.status, app.result(view.run_id))

Reading is synchronous; whatever opens a cell is a coroutine, best run in an event loop of its own (see `engine.sandbox.cell`).
Errors are those of `engine.errors`. This module composes; it decides nothing that a layer below could decide.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from anyio import to_thread

from engine.agents import open_handlers
from engine.catalog.repos import Catalog
from engine.catalog.snapshots import PinnedSnapshot, Snapshots
from engine.clock import Clock, SystemClock
from engine.doctor import Finding, examine
from engine.errors import CellLost, NotFound, RunCancelled, UsageError
from engine.files import make_directory, storage
from engine.gate.publish import ReportMissing, Services, gate_directory, read_gate_report
from engine.gate.publish import publish as publish_directory
from engine.ids import SESSION_ID, new_run_id, new_seed
from engine.models.provider import Tell, open_model
from engine.package.contract import GatedPackage, PublishedRevision
from engine.package.freeze import freeze
from engine.package.validate import Validation, validate
from engine.run.calls import CallHandler
from engine.run.decisions import cancel as cancel_run
from engine.run.folder import Run
from engine.run.generation import Choices, Limits
from engine.run.lifecycle import drive
from engine.run.projection import result_of, view_of
from engine.run.replay import OnUnknown
from engine.run.spec import RunSpec
from engine.run.status import Status
from engine.run.store import RunStore
from engine.run.view import RunView
from engine.sandbox.cell import Cell, open_cell
from engine.sandbox.docker import ImageMissing
from engine.sandbox.probes import ProbeReport, probe
from engine.sandbox.reaper import ListedCell, Reaped
from engine.sandbox.service import Sandbox
from engine.settings import Settings, load
from sandbox_images import build as image_build
from sandbox_images import lockfile, store
from sandbox_images.archive import BuiltImage
from sandbox_images.guest_files import guest_digest, guest_root, guest_tree
from sandbox_images.verify import verify_archive

PERSON = frozenset({"workspace.read", "workspace.write", "workspace.exec", "ask"})
"""What a person's session grants; `program:<name>` is granted too, `network` is not."""

Watch = Callable[[RunView], None]


@dataclass(frozen=True)
class Published:
    """A publication: the revision, its gate report (the statement kept with it), and what the owner should know."""

    revision: PublishedRevision
    report: dict[str, Any]
    notes: tuple[str, ...]


@contextmanager
def open_app(settings: Settings | None = None, *, clock: Clock | None = None) -> Iterator[App]:
    """The object graph for these settings (default: environment and settings.toml), closed when the block is left.

    Nothing is asked of the container engine before a method needs it.

    Raises:
        UsageError: a setting is unusable. StorageFull, EngineFailure: the home cannot be made.
    """
    chosen = settings or load()
    make_directory(chosen.home)
    time_source = clock or SystemClock()
    app = App(chosen, time_source, Sandbox.from_settings(chosen, time_source))
    try:
        yield app
    finally:
        app.sandbox.engine.close()


@dataclass
class App:
    """One home on one engine. Made by `open_app`."""

    settings: Settings
    clock: Clock
    sandbox: Sandbox
    catalog: Catalog = field(init=False)
    snapshots: Snapshots = field(init=False)
    runs: RunStore = field(init=False)
    _image_id: str = ""

    def __post_init__(self) -> None:
        self.catalog = Catalog(self.settings.home)
        self.snapshots = Snapshots(self.settings.home, self.catalog)
        self.runs = RunStore(self.settings.home, clock=self.clock)

    # packages

    def validate(self, directory: Path, *, authored: bool = False) -> Validation:
        """Every diagnostic of a directory; reads only, runs nothing. Raises NotFound or UsageError for no directory."""
        return validate(freeze(directory), authored=authored)

    async def test(self, directory: Path, *, repin: bool = False) -> GatedPackage:
        """Run a package's behaviour tests as publication does; publishes nothing. Raises as `engine.gate.publish.publish`."""
        self.validate_first(directory)
        await self.ready()
        return await gate_directory(directory, services=self._services(), repin=repin)

    async def publish(self, directory: Path, *, replace: bool = False, repin: bool = False) -> Published:
        """Publish a package whose tests pass in the sandbox. Raises as `engine.gate.publish.publish`."""
        self.validate_first(directory)
        await self.ready()
        revision = await publish_directory(directory, services=self._services(), replace=replace, repin=repin)
        report = read_gate_report(self.catalog, revision.workflow_id, revision.revision)
        return Published(revision, report, self._notes(revision))

    def validate_first(self, directory: Path) -> None:
        """Tell what is wrong with a directory before anything is asked of an engine. Raises InvalidCandidate."""
        from engine.package.validate import require_valid

        require_valid(freeze(directory))

    def gate_report(self, workflow_id: str, revision: str) -> dict[str, Any] | None:
        """The statement kept with a revision; None when there is none. For reading; nothing trusts it."""
        try:
            return read_gate_report(self.catalog, workflow_id, revision)
        except ReportMissing:
            return None

    def _notes(self, revision: PublishedRevision) -> tuple[str, ...]:
        summary = self.catalog.show(f"{revision.workflow_id}@{revision.revision}").summary
        if {"network", "workspace.read"} <= set(summary.permissions):
            return ("network together with workspace.read is a way for data to leave this machine.",)
        return ()

    def _services(self) -> Services:
        return Services(self.catalog, self.snapshots, self._gate_cell, self.settings, self.clock)

    def _gate_cell(self) -> AbstractAsyncContextManager[Cell]:
        return open_cell(self.sandbox, image_id=self._image_id, kind="gate", deadline_s=self.settings.gate_timeout_s)

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
        progress: Watch | None = None,
        tell: Tell | None = None,
    ) -> RunView:
        """Execute `ID[@REV]` with `task` in a new run; returns its view whatever its status.

        `workspace`: directory that the file calls see (default: the current one). `progress` gets a view at most
        every 500 ms; `tell` gets what only the owner's terminal may show (a prompt that no scripted reply fits).

        Raises:
            NotFound, NotAuthorised, CorruptEntry: about the package. UsageError: workspace, model or session.
            SandboxUnavailable: there is no engine or image; no run was made.
            StorageFull, EngineFailure: the record could not be written.
        """
        workflow_id, revision = self.catalog.resolve(reference)
        place = _directory(workspace or Path.cwd())
        chosen_model = absolute_model(model or self.settings.model)
        handlers = self._handlers(chosen_model, tell)
        if not SESSION_ID.fullmatch(session):
            raise UsageError(f"session {session!r} is no session name.", fix="Use a-z, 0-9, _ and -, at most 64.")
        snapshot = await to_thread.run_sync(self.snapshots.for_revision, workflow_id, revision)
        await self.ready()
        spec = self._spec(snapshot, task=task, session=session, workspace=place, model=chosen_model)
        choices = Choices(on_unknown=OnUnknown(on_unknown) if on_unknown else None)
        return await self._drive(self.runs.create(spec), snapshot.path, handlers, choices, progress)

    async def resume(
        self,
        run_id: str,
        *,
        on_unknown: str | None = None,
        accept_divergence: bool = False,
        raise_cap: int | None = None,
        progress: Watch | None = None,
        tell: Tell | None = None,
    ) -> RunView:
        """Go on with a run where it stopped, on its own snapshot and workspace; a completed one is returned as it is.

        Raises:
            RunNotFound: there is none. RunCancelled: it was cancelled. RunOwned: another process executes it.
            SandboxError: there is no cell to be had, or an old one could not be proven gone.
        """
        run = self.runs.open(run_id)
        standing = view_of(run)
        if standing.status is Status.COMPLETED:
            return standing
        if standing.status is Status.CANCELLED:
            raise RunCancelled(f"run {run_id} was cancelled.", fix="Start a new run.")
        handlers = self._handlers(run.spec.model, tell)
        snapshot = await to_thread.run_sync(self._snapshot_of, run)
        await self.ready()
        choices = Choices(
            on_unknown=OnUnknown(on_unknown) if on_unknown else None,
            accept_divergence=accept_divergence,
            raise_cap=raise_cap,
        )
        return await self._drive(run, snapshot.path, handlers, choices, progress)

    async def cancel(self, run_id: str, *, by: str = "") -> RunView:
        """Cancel a run for good, whoever executes it. Raises RunNotFound, RunEndedAlready, SandboxError."""
        return await cancel_run(self.runs.open(run_id), by=by, prove_gone=self._prove_gone)

    def view(self, run_id: str) -> RunView:
        """The run as it stands. Raises RunNotFound, JournalDamaged."""
        return view_of(self.runs.open(run_id))

    def result(self, run_id: str) -> Any:
        """The result of a completed run in codec form, else None. Raises RunNotFound, JournalDamaged."""
        return result_of(self.runs.open(run_id))

    async def _drive(
        self, run: Run, snapshot: Path, handlers: Mapping[str, CallHandler], choices: Choices, watch: Watch | None
    ) -> RunView:
        return await drive(
            run,
            snapshot=snapshot,
            cells=self._run_cell,
            handlers=handlers,
            prove_gone=self._prove_gone,
            limits=Limits(value_bytes=self.settings.value_bytes, output_bytes=self.settings.output_bytes),
            choices=choices,
            watch=watch,
        )

    def _run_cell(self, *, run_id: str, generation: int) -> AbstractAsyncContextManager[Cell]:
        return open_cell(
            self.sandbox,
            image_id=self._image_id,
            kind="run",
            deadline_s=self.settings.run_active_s,
            run_id=run_id,
            generation=generation,
        )

    def _handlers(self, model: str, tell: Tell | None) -> Mapping[str, CallHandler]:
        return open_handlers(clock=self.clock, model=open_model(model, tell=tell) if model else None)

    def _spec(self, snapshot: PinnedSnapshot, *, task: Any, session: str, workspace: Path, model: str) -> RunSpec:
        from cloche_guest import codec

        assert snapshot.revision is not None
        declared = snapshot.summary().permissions
        now = self.clock.now()
        return RunSpec(
            run_id=new_run_id(now),
            session=session,
            workflow_id=snapshot.workflow_id,
            revision=snapshot.revision,
            tree_id=snapshot.tree_id,
            pins=dict(snapshot.pins),
            snapshot_digest=snapshot.digest,
            task=codec.encode(task),
            seed=new_seed().hex(),
            permissions=tuple(p for p in declared if p in PERSON or p.startswith("program:")),
            workspace=str(workspace),
            model=model,
            cap=self.settings.cap,
            active_s=self.settings.run_active_s,
            total_s=self.settings.run_total_s,
            created_at=now.timestamp(),
        )

    def _snapshot_of(self, run: Run) -> PinnedSnapshot:
        snapshot = self.snapshots.for_revision(run.spec.workflow_id, run.spec.revision)
        if snapshot.digest != run.spec.snapshot_digest:
            raise NotFound(
                f"the snapshot of run {run.run_id} cannot be made again: the catalog gives other bytes.",
                fix="Restore the catalog's repositories; the run is untouched.",
            )
        return snapshot

    async def _prove_gone(self, cell_id: str) -> None:
        await to_thread.run_sync(self.sandbox.reap)
        listed = await to_thread.run_sync(self.sandbox.list_cells)
        if any(cell.cell_id == cell_id and cell.container for cell in listed):
            raise CellLost(f"cell {cell_id} of a dead owner cannot be ended.", fix="Try `cloche cells reap`.")

    # sandbox

    async def ready(self) -> str:
        """Image loaded, cells of dead owners ended; returns the image id. Called before every cell of this app.

        Raises:
            SandboxUnavailable: no engine, or no image. EngineTimeout: the engine hangs.
        """
        if not self._image_id:
            image = self.image()
            await to_thread.run_sync(self._load, image)
            await to_thread.run_sync(self.sandbox.reap)
            self._image_id = image.image_id
        return self._image_id

    async def doctor(self) -> list[Finding]:
        """Find out by trying what is there and what is missing."""
        return await examine(self.settings, self.sandbox, image=self._image_or_none(), load=self._load)

    async def probe(self, *, progress: Callable[[str], None] | None = None) -> ProbeReport:
        """Attack a cell, and an unprotected container as the control."""
        image_id = await self.ready()
        return await probe(self.sandbox, image_id=image_id, progress=progress)

    def cells(self) -> list[ListedCell]:
        """Every cell of this home."""
        return self.sandbox.list_cells()

    def reap(self) -> list[Reaped]:
        """End cells without an owner now."""
        return self.sandbox.reap()

    # image

    def image(self) -> BuiltImage:
        """The current image. Raises ImageMissing: none was built, or it holds another guest than this version of Cloche."""
        image = store.current(self.settings.home)
        if image is None:
            raise ImageMissing("the cell image is not built yet.", fix="Run `cloche image build`.")
        if image.guest != guest_digest(guest_tree(guest_root())):
            raise ImageMissing(
                "the cell image was built by another version of Cloche.", fix="Run `cloche image build`."
            )
        return image

    async def build_image(self, *, base: str = "", fall_back: bool = False) -> BuiltImage:
        """Build if anything changed, check, load. `base`: add the guest to that image of the engine instead."""
        ours = partial(store.ensure_built, self.settings.home, fall_back=fall_back)
        image = await to_thread.run_sync(partial(self._build_from_base, base) if base else ours)
        await to_thread.run_sync(self._load, image)
        return image

    async def image_is_loaded(self, image: BuiltImage) -> bool:
        """Whether the engine has it."""
        return await to_thread.run_sync(self.sandbox.engine.image_exists, image.image_id)

    def export_image(self, file: Path) -> BuiltImage:
        """Copy the current image's archive. Raises UsageError: the file exists. StorageFull, EngineFailure: writing failed."""
        image = self.image()
        if file.exists():
            raise UsageError(f"{file} exists already.", fix="Name a new file.")
        with storage(file):
            try:
                shutil.copyfile(image.path, file)
            except BaseException:
                file.unlink(missing_ok=True)
                raise
        return image

    async def import_image(self, file: Path) -> BuiltImage:
        """Check an exported archive, make it current, load it. Raises ImageAltered."""
        image = await to_thread.run_sync(store.adopt, self.settings.home, file)
        await to_thread.run_sync(self._load, image)
        return image

    def image_lock(self) -> dict[str, str]:
        """Locked packages and versions."""
        return dict(lockfile.versions(lockfile.read_lock().package))

    def update_image_lock(self) -> tuple[lockfile.Change, ...]:
        """Lock the mirror's current versions; what changed."""
        return image_build.update_lock(cache=self.settings.home / "images" / "debs")

    def _build_from_base(self, base: str) -> BuiltImage:
        archive = self.settings.home / "images" / f".base-{time.monotonic_ns()}.tar"
        make_directory(archive.parent)
        try:
            self.sandbox.engine.save_image(base, archive)
            return store.build_from_base(self.settings.home, archive)
        finally:
            archive.unlink(missing_ok=True)

    def _load(self, image: BuiltImage) -> None:
        if not self.sandbox.engine.image_exists(image.image_id):
            verify_archive(image.path, expect=image.image_id)
            self.sandbox.engine.load_image(image.path)

    def _image_or_none(self) -> BuiltImage | None:
        try:
            return self.image()
        except ImageMissing:
            return None


def _directory(path: Path) -> Path:
    if not path.is_dir():
        raise UsageError(f"the workspace {path} is no directory.", fix="Give an existing directory.")
    return path.resolve()


def absolute_model(model: str) -> str:
    """A model's name with the path of a script made absolute, so that a resume from elsewhere finds it."""
    kind, _, rest = model.partition(":")
    return f"scripted:{Path(rest).absolute()}" if kind == "scripted" and rest else model
