"""The probe on a full cell: every attempt that shares a cell is stopped by what must stop it, and its control gets through."""

from __future__ import annotations

import anyio
import pytest

from engine.sandbox.attempts import attempts
from engine.sandbox.policy import Runtime
from engine.sandbox.probes import probe
from engine.sandbox.service import Sandbox

pytestmark = [pytest.mark.sandbox, pytest.mark.both_runtimes]


def test_every_attempt_is_blocked_in_a_full_cell_and_gets_through_without_protection(
    runtime: Runtime, sandbox: Sandbox, image_id: str
) -> None:
    async def probed() -> None:
        report = await probe(sandbox, image_id=image_id, runtime=runtime)
        assert report.runtime == runtime
        wanted = {one.name for one in attempts() if one.kind == "attempt" and one.applies(report.runtime)}
        assert {row.name: row.verdict for row in report.rows} == dict.fromkeys(wanted, "blocked")
        assert len(report.rows) > 60
        assert report.held

    anyio.run(probed)
