"""The package of the guide passes its own tests in a real cell, as someone who follows the guide expects."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.catalog.repos import Catalog
from engine.catalog.snapshots import Snapshots
from engine.clock import SystemClock
from engine.gate.checks import TestsFailed
from engine.gate.publish import Services, publish
from engine.sandbox.service import Sandbox
from tests.helpers.doc_pages import write_guide_package
from tests.helpers.sandbox import SandboxCells

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.anyio,
    pytest.mark.runc_only("the package of the guide, which is as sound as the small one that both have"),
]


@pytest.fixture
def services(sandbox: Sandbox, image_id: str) -> Services:
    catalog = Catalog(sandbox.settings.home)
    snapshots = Snapshots(sandbox.settings.home, catalog)
    return Services(catalog, snapshots, SandboxCells(sandbox, image_id), sandbox.settings, SystemClock())


async def test_the_package_in_the_guide_is_published_with_evidence(services: Services, tmp_path: Path) -> None:
    published = await publish(write_guide_package(tmp_path), services=services, authored=True)
    assert services.catalog.resolve("word_count") == ("word_count", published.revision)


async def test_the_package_in_the_guide_is_refused_when_it_counts_wrongly(services: Services, tmp_path: Path) -> None:
    directory = write_guide_package(tmp_path)
    (directory / "steps" / "count.py").write_text("def words(text: str) -> int:\n    return len(text)\n")
    with pytest.raises(TestsFailed) as refused:
        await publish(directory, services=services)
    assert [case.outcome for case in refused.value.report.cases] == ["failed", "passed"]
