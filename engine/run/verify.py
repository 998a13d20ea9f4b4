"""A program run again against the record alone: nothing is executed, nothing is written, and every difference is named.

Each call gets the outcome of its record, in the recorded order and only while the program is quiet; a call without one gets no
answer. A run whose record does not tell how its program ended is compared up to its last completed call.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from cloche_guest import codec

from engine.errors import EngineTimeout
from engine.run.cells import CellFactory, RunCell
from engine.run.checking import Check
from engine.run.folder import Run
from engine.run.history import History
from engine.run.projection import standing
from engine.run.spec import job_of
from engine.run.verdict import Difference, Verdict, What
from engine.run.wording import clean

KEYS_TOLD = 20
"""Records with other arguments than their key says that are told one by one."""

GRACE_S = 5.0
"""What a cell gets beyond its deadline to end itself."""


@dataclass(frozen=True)
class Subject:
    """What is held against a record: a read-only tree, the revision and pins that it is of, and its digest.

    `stored` is the digest of what the home kept under the run's snapshot digest; None when it kept nothing. `chosen`: the
    question is what this revision would do, so that an image that changed since is worth a note and no difference.
    """

    snapshot: Path
    revision: str
    digest: str
    stored: str | None = None
    dependencies: frozenset[str] = field(default_factory=frozenset)
    chosen: bool = False


async def verify(run: Run, subject: Subject, *, cells: CellFactory, deadline_s: float) -> Verdict:
    """Run the program of `subject` against the record of `run`, in a cell of its own.

    Of another revision than the recorded one, other bytes and another result are no difference.

    Raises:
        JournalDamaged: the record cannot be read.
        SandboxError: there is no cell to be had, it was lost, or `deadline_s` did not do; nothing is known of the program.
    """
    owned = run.is_owned()
    _, history = run.read()
    revised = subject.revision != run.spec.revision
    async with cells(run_id=run.run_id, generation=0) as cell:
        check = Check(run, history, cell=cell, dependencies=subject.dependencies, revised=revised)
        try:
            async with asyncio.timeout(deadline_s + GRACE_S):
                await cell.deliver(job_of(run.spec, deadline_s=deadline_s), subject.snapshot)
                await check.run()
        except TimeoutError as error:
            raise EngineTimeout(
                f"the program of run {run.run_id} did not get through its record within {deadline_s:.0f} s.",
                fix="Raise CLOCHE_RUN_ACTIVE_S.",
            ) from error
        check.close(await cell.finish())
        bytes_ = [] if revised else _other_bytes(run, subject)
        told = {one.seq for one in check.differences}
        keys = [one for one in _other_keys(run, history) if one.seq not in told]
        images = _other_images(history, cell)
    return Verdict(
        run_id=run.run_id,
        workflow_id=run.spec.workflow_id,
        revision=subject.revision,
        recorded_revision=run.spec.revision,
        status=standing(history, owned)[0],
        whole=check.end is not None,
        calls=len(history.places),
        asked=check.matched,
        differences=[*bytes_, *keys, *([] if subject.chosen else images), *check.differences],
        notes=[*check.notes, *(one.message for one in images if subject.chosen)],
    )


def _other_keys(run: Run, history: History) -> list[Difference]:
    """Records whose arguments are not those of their key: nothing that Cloche writes."""
    found = []
    for record in history.records.values():
        arguments = run.value(record.started.args, record.started.args_blob)
        if codec.digest(arguments) != record.key.digest:
            key = record.key
            told = f"the recorded arguments of {key.fn}() number {key.n} in {key.scope} are not those of its key"
            shown = clean(codec.text(arguments), 600)
            found.append(
                Difference(
                    what=What.ARGUMENT,
                    message=told,
                    seq=record.seq,
                    scope=key.scope,
                    fn=key.fn,
                    n=key.n,
                    site=record.started.site,
                    recorded=shown,
                )
            )
    return found[:KEYS_TOLD]


def _other_bytes(run: Run, subject: Subject) -> list[Difference]:
    recorded, found = run.spec.snapshot_digest, []
    if subject.stored not in (None, recorded):
        told = "the stored snapshot was changed; it was made again from the catalog"
        found.append(Difference(what=What.SNAPSHOT, message=told, recorded=recorded, asked=subject.stored or ""))
    if subject.digest != recorded:
        told = "the catalog gives other bytes than those that the run began with"
        found.append(Difference(what=What.SNAPSHOT, message=told, recorded=recorded, asked=subject.digest))
    return found


def _other_images(history: History, cell: RunCell) -> list[Difference]:
    found: dict[str, list[str]] = {}
    for generation in history.generations:
        if generation.cell is not None and generation.cell.image != cell.image:
            found.setdefault(generation.cell.image, []).append(str(generation.number))
    return [
        Difference(
            what=What.IMAGE,
            message=f"generation {', '.join(numbers)} ran in another image than this verification",
            recorded=image,
            asked=cell.image,
        )
        for image, numbers in found.items()
    ]
