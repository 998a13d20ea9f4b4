"""The examples at the real gate: four are published, and the refused ones are refused for what they do in a cell."""

from __future__ import annotations

import re

import pytest

from engine.catalog.repos import Catalog
from engine.catalog.snapshots import Snapshots
from engine.clock import SystemClock
from engine.gate.checks import TestsFailed
from engine.gate.publish import Services, publish
from engine.gate.report import GateReport
from engine.sandbox.service import Sandbox
from tests.helpers.package_tests import EXAMPLES, PACKAGES
from tests.helpers.sandbox import SandboxCells

pytestmark = [pytest.mark.sandbox, pytest.mark.anyio, pytest.mark.both_runtimes]


@pytest.fixture
def services(sandbox: Sandbox, image_id: str) -> Services:
    catalog = Catalog(sandbox.settings.home)
    snapshots = Snapshots(sandbox.settings.home, catalog)
    return Services(catalog, snapshots, SandboxCells(sandbox, image_id), sandbox.settings, SystemClock())


async def refusal(name: str, services: Services) -> GateReport:
    """The report of the gate that refused an example."""
    with pytest.raises(TestsFailed) as raised:
        await publish(EXAMPLES / "refused" / name, services=services)
    return raised.value.report


@pytest.mark.runc_only("34 s; that sound packages pass is tried under both with a small one")
async def test_every_example_is_published_with_evidence_as_a_planner_must(services: Services) -> None:
    revisions = {}
    for name in PACKAGES:
        revisions[name] = await publish(EXAMPLES / name, services=services, authored=True)
    assert dict(revisions["dependency_review"].pins) == {"requirements_parse": revisions["requirements_parse"].revision}


@pytest.mark.runc_only("a failing assertion is tried under both with a smaller package")
async def test_the_package_with_a_failing_test_is_refused_by_that_test_alone(services: Services) -> None:
    report = await refusal("failing_test", services)
    assert [(case.outcome, case.id.rpartition("::")[2]) for case in report.cases] == [
        ("passed", "test_words_are_counted"),
        ("failed", "test_two_blanks_in_a_row_make_no_word"),
    ]


async def test_the_package_that_reaches_out_is_stopped_at_every_attempt(services: Services) -> None:
    report = await refusal("reaches_out", services)
    (case,) = report.cases
    assert case.outcome == "failed"
    told = f"{case.detail}\n{case.output}"
    blocked = re.search(r"(\d+) of (\d+) attempts were blocked", told)
    assert blocked is not None, told
    assert blocked.group(1) == blocked.group(2), told
    assert "connect to 1.1.1.1: " in told
