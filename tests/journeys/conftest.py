"""The command line as a person uses it: a home with the image in it, and a way to run `cloche`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.sandbox.docker import Engine
from engine.settings import load
from tests.helpers.commands import Commands, home_with_image
from tests.helpers.sandbox import loaded_image


@pytest.fixture(scope="session")
def engine_with_image() -> Iterator[Engine]:
    """The engine that answers at the configured address, with the current image; none is a failure."""
    engine = Engine(load().docker_host, timeout_s=60)
    loaded_image(engine)
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, engine_with_image: Engine) -> Commands:
    """A home for the session, for tests that do not mind what is in it."""
    return Commands(home_with_image(tmp_path_factory.mktemp("shared") / "home"))


@pytest.fixture
def cloche(tmp_path: Path, engine_with_image: Engine) -> Commands:
    """A home of the test's own."""
    return Commands(home_with_image(tmp_path / "home"))
