"""The command line as a person uses it: a home with the image in it, and a way to run `cloche`."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.sandbox.docker import Engine
from engine.sandbox.policy import Runtime
from tests.helpers.commands import Commands, home_with_image
from tests.helpers.runtimes import host_of
from tests.helpers.sandbox import loaded_image


@pytest.fixture(autouse=True)
def _interruptible() -> Iterator[None]:
    """A shell's background job ignores SIGINT, and so would the commands that it starts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def engine_with_image(runtime: Runtime) -> Iterator[Engine]:
    """The engine whose cells use this runtime, with the current image; none is a failure."""
    engine = Engine(host_of(runtime), timeout_s=60)
    loaded_image(engine)
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, engine_with_image: Engine) -> Commands:
    """A home for the session, for tests that do not mind what is in it."""
    return Commands(home_with_image(tmp_path_factory.mktemp("shared") / "home"))


@pytest.fixture
def cloche(tmp_path: Path, engine_with_image: Engine, runtime: Runtime) -> Commands:
    """A home of the test's own."""
    home = home_with_image(tmp_path / "home", host=engine_with_image.host, runtime=runtime)
    return Commands(home, environment={"DOCKER_HOST": engine_with_image.host, "CLOCHE_RUNTIME": runtime})
