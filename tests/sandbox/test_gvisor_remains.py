"""What a failed start of real gVisor leaves behind is ended with the cell, and nothing of it stays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.sandbox import remains
from engine.sandbox.cell import open_cell
from engine.sandbox.docker import Engine
from engine.sandbox.engine_errors import EngineRefused
from engine.sandbox.service import Sandbox
from tests.helpers.private_engine import private_engine
from tests.helpers.runtimes import leaking_gvisor
from tests.helpers.sandbox import loaded_image, make_sandbox, nothing_left, wait_for

pytestmark = [pytest.mark.sandbox, pytest.mark.anyio]


@pytest.fixture
def leaky(tmp_path: Path) -> Iterator[Engine]:
    """An engine whose gVisor refuses every start and leaves its processes."""
    with private_engine(gvisor=True, runsc=leaking_gvisor(tmp_path)) as private:
        engine = Engine(private.host, timeout_s=60)
        loaded_image(engine)
        yield engine
        engine.close()


class Starts(Engine):
    """Remembers what it was asked to start, and which processes were there when that had failed."""

    seen: dict[str, tuple[int, ...]]

    def start(self, container: str) -> None:
        try:
            super().start(container)
        finally:
            self.seen = remains.find({container})


async def test_the_processes_of_a_failed_start_are_ended_with_its_cell(leaky: Engine, tmp_path: Path) -> None:
    engine = Starts(leaky.host, timeout_s=60)
    sandbox: Sandbox = make_sandbox(tmp_path / "home", engine, runtime="runsc")
    with nothing_left(sandbox), pytest.raises(EngineRefused, match="network"):
        async with open_cell(sandbox, image_id=loaded_image(leaky), kind="run", deadline_s=5):
            pytest.fail("gVisor started with a network")
    ((container, pids),) = engine.seen.items()
    assert len(pids) >= 3  # shim, gofer and sandbox
    wait_for(lambda: remains.find({container}) == {})
    engine.close()
