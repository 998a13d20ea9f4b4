"""An engine, the cell image in it, and a sandbox that must leave nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.sandbox.docker import Engine
from engine.sandbox.policy import Runtime
from engine.sandbox.service import Sandbox
from tests.helpers import runtimes
from tests.helpers.sandbox import loaded_image, make_sandbox, nothing_left

collect_ignore_glob = [] if "runsc" in runtimes.tried() else ["test_gvisor_*.py"]
"""What is about gVisor alone, where it cannot be had."""


@pytest.fixture(scope="session")
def engine(runtime: Runtime) -> Iterator[Engine]:
    """The engine of the settings, or with runsc the second one; none is a failure."""
    made = Engine(runtimes.host_of(runtime), timeout_s=60)
    made.ping()
    yield made
    made.close()


@pytest.fixture(scope="session")
def image_id(engine: Engine) -> str:
    return loaded_image(engine)


@pytest.fixture
def sandbox(tmp_path: Path, engine: Engine) -> Iterator[Sandbox]:
    made = make_sandbox(tmp_path / "home", engine)
    with nothing_left(made):
        yield made


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Cells are opened from asyncio, as in the product."""
    return "asyncio"
