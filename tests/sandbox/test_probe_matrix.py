"""Every protection taken away again: no code runs, or the attempts that the matrix names get through."""

from __future__ import annotations

import anyio
import pytest

from engine.sandbox.attempts import select
from engine.sandbox.service import Sandbox
from tests.helpers.sandbox import make_sandbox
from tests.matrix.measure import measured
from tests.matrix.page import read
from tests.matrix.weaker import FIELDS, PROTECTIONS

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.runc_only(
        "the matrix is made under runc, where every protection of the policy is in force and can be taken away"
    ),
]

RECORDED = read()
FINDABLE = [
    name for name in PROTECTIONS if RECORDED[name].refused or RECORDED[name].through or RECORDED[name].otherwise
]


@pytest.fixture
def under_runc(sandbox: Sandbox) -> Sandbox:
    """The matrix is runc's: only there the list of system calls is the kernel's."""
    return make_sandbox(sandbox.settings.home, sandbox.engine, runtime="runc")


@pytest.mark.parametrize("protection", FINDABLE)
def test_without_a_protection_no_code_runs_or_its_attempts_find_out(
    protection: str, under_runc: Sandbox, image_id: str
) -> None:
    recorded = RECORDED[protection]
    names = (*recorded.through, *(name for name, _ in recorded.otherwise))
    full = under_runc.policy("probe")
    weaker = PROTECTIONS[protection](full, under_runc.settings.home)
    assert weaker != full
    made = select(only=names) if names else select(only=["network_inet"])

    async def again() -> None:
        found = await measured(under_runc, image_id, full=full, weaker=weaker, attempts=made)
        assert bool(found.refused) == bool(recorded.refused), found
        assert set(found.through) == set(recorded.through)
        if protection in FIELDS:
            assert {name for name, _ in found.otherwise} == {name for name, _ in recorded.otherwise}

    anyio.run(again)
