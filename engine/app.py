"""The whole of Cloche from Python: one object graph, opened and closed as a context manager.

    with open_app() as app:
        published = anyio.run(app.publish, Path("examples/requirements_parse"))
        view = anyio.run(app.run, "requirements_parse", "anyio==4.9.0")
        print(view.status, app.result(view.run_id))
        for entry in app.catalog.list().entries:
            print(entry.workflow_id, entry.revision)

Reading is synchronous; whatever opens a cell is a coroutine, best run in an event loop of its own (see `engine.sandbox.cell`).
Errors are those of `engine.errors`. This module is the list of what can be done; it decides nothing. Each verb is another object's,
loaded when it is first used, because most commands need one or two of them: `engine.publications`, `engine.executions`,
`engine.interventions`, `engine.verification`, or one of the parts of a home (`engine.parts`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine import log
from engine.clock import Clock, SystemClock
from engine.errors import ClocheError, EngineFailure
from engine.files import make_directory
from engine.parts import Parts
from engine.settings import Settings, load

if TYPE_CHECKING:
    from engine.doctor import Finding
    from engine.executions import Executions
    from engine.interventions import Interventions
    from engine.models.provider import Tell
    from engine.package.contract import GatedPackage
    from engine.package.validate import Validation
    from engine.publications import Publications, Published
    from engine.run.verdict import Verdict
    from engine.run.view import RunView
    from engine.sandbox.probe_report import ProbeReport
    from engine.sandbox.reaper import ListedCell, Reaped
    from engine.verification import Verification

    Watch = Callable[[RunView], None]


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


class App(Parts):
    """One home on one engine: its parts, and everything that can be done with them. Made by `open_app`."""

    # packages

    def validate(self, directory: Path, *, authored: bool = False) -> Validation:
        """Every diagnostic of a directory; reads only, runs nothing. Raises NotFound or UsageError for no directory."""
        return self._publications.validate(directory, authored=authored)

    async def test(self, directory: Path, *, repin: bool = False) -> GatedPackage:
        """Run a package's behaviour tests as publication does; publishes nothing. Raises as `engine.gate.publish.publish`."""
        return await self._publications.test(directory, repin=repin)

    async def publish(self, directory: Path, *, replace: bool = False, repin: bool = False) -> Published:
        """Publish a package whose tests pass in the sandbox. Raises as `engine.gate.publish.publish`."""
        return await self._publications.publish(directory, replace=replace, repin=repin)

    def gate_report(self, workflow_id: str, revision: str) -> dict[str, Any] | None:
        """The statement kept with a revision; None when there is none. For reading; nothing trusts it."""
        return self._publications.gate_report(workflow_id, revision)

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

        Arguments and errors: `engine.executions.Executions.run`.
        """
        return await self._executions.run(
            reference,
            task,
            workspace=workspace,
            model=model,
            on_unknown=on_unknown,
            session=session,
            by=by,
            progress=progress,
            tell=tell,
        )

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

        Arguments and errors: `engine.executions.Executions.resume`.
        """
        return await self._executions.resume(
            run_id,
            on_unknown=on_unknown,
            accept_divergence=accept_divergence,
            raise_cap=raise_cap,
            by=by,
            progress=progress,
            tell=tell,
        )

    async def cancel(self, run_id: str, *, by: str = "") -> RunView:
        """Cancel a run for good, whoever executes it. Raises RunNotFound, RunEndedAlready, SandboxError."""
        return await self._interventions.cancel(run_id, by=by)

    def decide(self, run_id: str, seq: int, what: str, *, value: Any = None, by: str = "") -> RunView:
        """Decide about the call of unknown outcome that `runs show` numbers `seq`: `rerun`, `treat-as-failed`, `value`.

        Arguments and errors: `engine.interventions.Interventions.decide`.
        """
        return self._interventions.decide(run_id, seq, what, value=value, by=by)

    def answer(self, run_id: str, seq: int | None, value: Any, *, by: str = "") -> bool:
        """Answer the question that `runs show` numbers `seq`, or the only open one, with `value` in codec form.

        Arguments and errors: `engine.interventions.Interventions.answer`.
        """
        return self._interventions.answer(run_id, seq, value, by=by)

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

        Arguments and errors: `engine.executions.Executions.fork`.
        """
        return await self._executions.fork(run_id, seq, revision=revision, progress=progress, tell=tell)

    async def verify(self, run_id: str, *, revision: str = "") -> Verdict:
        """Run a recorded program again without executing any call, on its revision or another one, and compare.

        Arguments and errors: `engine.verification.Verification.verify`.
        """
        return await self._verification.verify(run_id, revision=revision)

    async def verify_runs(
        self, workflow_id: str, *, revision: str = "", limit: int | None = None
    ) -> tuple[list[Verdict], list[tuple[str, ClocheError]]]:
        """Hold the newest `limit` recorded runs of a package against one revision, the active one by default.

        Arguments and errors: `engine.verification.Verification.verify_runs`.
        """
        return await self._verification.verify_runs(workflow_id, revision=revision, limit=limit)

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
        """End cells without an owner now, also on other engines that made some; with `idle` also those that wait for a job."""
        return self.sandbox.reap(idle=idle, everywhere=True)

    # behind it

    @cached_property
    def _publications(self) -> Publications:
        from engine.publications import Publications

        return Publications(self)

    @cached_property
    def _executions(self) -> Executions:
        from engine.executions import Executions

        return Executions(self)

    @cached_property
    def _interventions(self) -> Interventions:
        from engine.interventions import Interventions

        return Interventions(self)

    @cached_property
    def _verification(self) -> Verification:
        from engine.verification import Verification

        return Verification(self)
