"""What a cell that has started shows of itself, held against its policy: the supervisor's hello, and the kernel's limits on it.

It compares and reports; whether code is delivered is decided by `engine.sandbox.cell`, which delivers none where something differs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.errors import AttestationFailed
from engine.sandbox import attest
from engine.sandbox.cgroup import Cgroup, LimitsInForce
from engine.sandbox.frames import CellFrame, Hello
from engine.sandbox.launch import Launch


@dataclass(frozen=True)
class Greeting:
    """`attestation`: what the supervisor saw from inside. `limits_in_force`: what the kernel enforces, None where that is not visible.

    `differences`: what is not as the policy says, in sentences; empty when all is. `notes` are for the cell's end.
    """

    attestation: dict[str, Any]
    limits_in_force: LimitsInForce | None = None
    differences: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def greeting(hello: CellFrame, launch: Launch, *, cgroup: Cgroup | None) -> Greeting:
    """The hello of this launch, compared. `cgroup`: the cell's, None where this machine does not see it.

    Raises:
        AttestationFailed: it is no hello, or one with another nonce than this launch has given.
    """
    if not isinstance(hello, Hello) or hello.nonce != launch.nonce:
        raise AttestationFailed(f"cell {launch.cell_id} answered with another nonce than it was given.")
    claimed = launch.wish.claimed
    found = attest.differences(hello.attestation, claimed, uid=launch.uid, host_kernel=launch.host_kernel)
    if cgroup is None:
        return Greeting(
            hello.attestation, differences=found, notes=("the cgroup files are not visible from this machine",)
        )
    try:
        limits = cgroup.limits()
        found += attest.cgroup_differences(limits, claimed)
    except (OSError, ValueError) as error:
        return Greeting(hello.attestation, differences=(*found, f"the cgroup files could not be read ({error})"))
    return Greeting(hello.attestation, limits, found)
