"""The probe: attempts to get out of a real cell, each with a positive control in a container without protection.

The cell and the control run side by side. What stops an attempt is compared with what must stop it, because an attempt that
fails for another reason shows nothing about the protection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from anyio import to_thread

from engine.errors import SandboxError
from engine.sandbox.at_once import at_once
from engine.sandbox.attempts import Attempt, select
from engine.sandbox.bait import Bait, laid_out
from engine.sandbox.cell import open_cell
from engine.sandbox.control import in_control
from engine.sandbox.frames import CaseResult, End
from engine.sandbox.jobs import ProbeJob
from engine.sandbox.policy import CellPolicy, Runtime
from engine.sandbox.probe_report import ProbeReport, Said, judged

if TYPE_CHECKING:
    from engine.sandbox.service import Sandbox

DEADLINE_S = 120.0
ATTEMPT_S = 20.0
OUTPUT_BYTES = 16 * 1024


class ProbeFailed(SandboxError):
    """The probe could not be carried out; nothing is known of the sandbox."""

    code = "probe_failed"


async def probe(
    sandbox: Sandbox,
    *,
    image_id: str,
    runtime: Runtime | None = None,
    policy: CellPolicy | None = None,
    claimed: CellPolicy | None = None,
    chosen: Iterable[Attempt] | None = None,
    progress: Callable[[str], None] | None = None,
) -> ProbeReport:
    """Make every attempt of kind `attempt` (or those of that kind in `chosen`) in a cell and in the control.

    An attempt about which this runtime claims nothing is left out. `policy` and `claimed`: see `open_cell`; a test takes a
    protection away and sees an attempt get through.

    Raises:
        ProbeFailed: the cell or the control did not report every attempt. SandboxError: there was no cell.
    """
    used = policy.runtime if policy else runtime or await sandbox.choose_runtime(image_id)
    full = policy or sandbox.policy("probe", used)
    among = select() if chosen is None else chosen
    made = tuple(attempt for attempt in among if attempt.kind == "attempt" and attempt.applies(used))
    report = ProbeReport(runtime=used, image_id=image_id, policy_digest=(claimed or full).digest, rows=())
    if not made:
        return report
    if progress:
        progress(f"{len(made)} attempts in a cell, and in an unprotected container beside it")
    with laid_out(sandbox.settings.home, made) as bait:
        names = [attempt.name for attempt in made]
        cell, control = await at_once(
            [
                partial(_in_cell, sandbox, names, bait, image_id=image_id, policy=full, claimed=claimed),
                partial(to_thread.run_sync, in_control, sandbox, names, bait, image_id),
            ],
            most=2,
        )
    _check_complete(names, cell, "the cell")
    _check_complete(names, control, "the unprotected container")
    rows = (judged(one, runtime=used, cell=cell[one.name], control=control[one.name]) for one in made)
    return report.with_rows(rows)


async def _in_cell(
    sandbox: Sandbox,
    names: list[str],
    bait: Bait,
    *,
    image_id: str,
    policy: CellPolicy,
    claimed: CellPolicy | None,
) -> dict[str, Said]:
    job = ProbeJob(tuple(names), DEADLINE_S, ATTEMPT_S, OUTPUT_BYTES)
    said: dict[str, Said] = {}
    async with open_cell(
        sandbox, image_id=image_id, kind="probe", deadline_s=DEADLINE_S, policy=policy, claimed=claimed
    ) as cell:
        await cell.deliver(job, bait.snapshot)
        while not isinstance(frame := await cell.receive(), End):
            if isinstance(frame, CaseResult) and 0 <= frame.case < len(names):
                said[names[frame.case]] = heard(frame)
    return said


def heard(frame: CaseResult) -> Said:
    """What stopped it stands before the first colon; the supervisor's own words stand for themselves."""
    if frame.outcome == "passed":
        return Said(True, "", frame.detail)
    if frame.outcome == "failed":
        cause, _, detail = frame.detail.partition(": ")
        return Said(False, cause, detail)
    return Said(False, frame.outcome, frame.detail)


def _check_complete(names: list[str], said: dict[str, Said], where: str) -> None:
    missing = [name for name in names if name not in said]
    if missing:
        raise ProbeFailed(
            f"{where} did not report {', '.join(missing)}.", fix="Run it again; `cloche doctor` tells more."
        )
