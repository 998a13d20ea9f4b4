"""Recorded runs held against a program: one run, or the newest ones of a package against one revision.

It chooses the snapshots and has a cell ready; comparing is `engine.run.verify`'s. It executes no call and changes no run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from anyio import to_thread

from engine.errors import ClocheError, EngineFailure, SandboxError
from engine.parts import Parts
from engine.run.verify import Subject, verify

if TYPE_CHECKING:
    from engine.catalog.snapshots import PinnedSnapshot
    from engine.run.verdict import Verdict


@dataclass(frozen=True)
class Verification:
    """Of the runs of one home. Behind `engine.app.App`, whose methods of these names have no other contract."""

    parts: Parts

    async def verify(self, run_id: str, *, revision: str = "") -> Verdict:
        """Run a recorded program again without executing any call, on its revision or another one, and compare.

        Raises:
            RunNotFound: there is none. JournalDamaged: it cannot be read.
            NotFound, NotAuthorised, CorruptEntry: about the package.
            SandboxError: there is no cell to be had, or it was lost.
        """
        run = self.parts.runs.open(run_id)
        kept = await to_thread.run_sync(self.parts.snapshots.digest_of_kept, run.spec.snapshot_digest)
        wanted = revision or run.spec.revision
        found = await to_thread.run_sync(self._snapshot_at, run.spec.workflow_id, wanted)
        await self.parts.cells.ready("run")
        subject = Subject(
            found.path,
            revision=found.revision or "",
            digest=found.digest,
            stored=kept,
            dependencies=frozenset(found.pins),
            chosen=bool(revision),
        )
        return await verify(run, subject, cells=self.parts.cells.run_cell, deadline_s=self.parts.settings.run_active_s)

    async def verify_runs(
        self, workflow_id: str, *, revision: str = "", limit: int | None = None
    ) -> tuple[list[Verdict], list[tuple[str, ClocheError]]]:
        """Hold the newest `limit` recorded runs of a package against one revision, the active one by default.

        Gives a verdict for each, newest first, and what was wrong with those that could not be compared, by run id.

        Raises:
            NotFound, NotAuthorised, CorruptEntry: about the package. SandboxUnavailable: there is no cell to be had.
        """
        wanted = (await to_thread.run_sync(self._snapshot_at, workflow_id, revision)).revision or ""
        await self.parts.cells.ready("run")
        runs, broken = self.parts.runs.list()
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
        return self.parts.snapshots.for_revision(*self.parts.catalog.resolve(reference))
