"""One weakened cell: what sees it before any code, and which attempts get through in it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from engine.errors import AttestationFailed, CellLost, SandboxError
from engine.sandbox import attest
from engine.sandbox.attempts import Attempt
from engine.sandbox.bait import laid_out
from engine.sandbox.cell import open_cell
from engine.sandbox.frames import CaseResult, End
from engine.sandbox.jobs import ProbeJob
from engine.sandbox.policy import CellPolicy
from engine.sandbox.probe_report import Said
from engine.sandbox.probes import heard
from engine.sandbox.service import Sandbox

DEADLINE_S, ATTEMPT_S, OUTPUT_BYTES = 60.0, 10.0, 1024


@dataclass(frozen=True)
class Measured:
    """What came of taking one protection away.

    `refused`: why there was no cell even though the weaker policy was claimed. `seen`: what else the supervisor's attestation
    or the host's cgroup files show that the full policy does not have. `through`: the attempts that got through, by name;
    `otherwise`: those stopped by something else than what must stop them, with that.
    """

    refused: str = ""
    seen: str = ""
    through: tuple[str, ...] = ()
    otherwise: tuple[tuple[str, str], ...] = ()


async def measured(
    sandbox: Sandbox, image_id: str, *, full: CellPolicy, weaker: CellPolicy, attempts: Iterable[Attempt]
) -> Measured:
    """Claim the weaker policy, so that nothing but itself can give it away."""
    made = tuple(attempts)
    said: dict[str, Said] = {}
    try:
        with laid_out(sandbox.settings.home, made) as bait:
            async with open_cell(
                sandbox, image_id=image_id, kind="probe", deadline_s=DEADLINE_S, policy=weaker
            ) as cell:
                found = attest.differences(cell.attestation, full, uid=cell.uid)
                if cell.limits_in_force is not None:
                    found += attest.cgroup_differences(cell.limits_in_force, full)
                names = tuple(attempt.name for attempt in made)
                await cell.deliver(ProbeJob(names, DEADLINE_S, ATTEMPT_S, OUTPUT_BYTES), bait.snapshot)
                while not isinstance(frame := await cell.receive(), End):
                    if isinstance(frame, CaseResult):
                        said[names[frame.case]] = heard(frame)
    except AttestationFailed as error:
        return Measured(refused=_short(error.message.partition("policy says: ")[2]))
    except CellLost:
        return Measured(refused="the supervisor cannot do its work and ends")
    except SandboxError as error:
        return Measured(refused=f"the engine: {_short(error.message.rpartition('start container process: ')[2])}")
    return Measured(
        seen=_short(found[0]) if found else "",
        through=tuple(name for name, one in said.items() if one.through),
        otherwise=tuple(
            (attempt.name, said[attempt.name].cause)
            for attempt in made
            if not said[attempt.name].through and not attempt.expected(full.runtime, said[attempt.name].cause)
        ),
    )


def _short(text: str) -> str:
    """One sentence without what differs from machine to machine."""
    first = text.split("; ")[0].rstrip(".")
    first = re.sub(r"/[\w./-]*\.probe[\w./-]*|/tmp/[\w./-]+", "a directory of the host", first)
    first = re.sub(r"(interfaces): .*|: asked for.*", r"\1", first)
    return re.sub(r"\d{3,}", "…", first).replace("|", "\\|")[:90]
