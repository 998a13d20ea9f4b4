"""What an engine does wrong, as the error that a user sees."""

from __future__ import annotations

import socket
import tempfile
from pathlib import Path
from time import monotonic

import anyio
import pytest

from engine.errors import EngineTimeout, SandboxError
from engine.sandbox import uids
from engine.sandbox.cell import open_cell
from engine.sandbox.docker import Engine
from engine.sandbox.engine_errors import (
    ContainerGone,
    EngineConnectionLost,
    EngineRefused,
    EngineTooOld,
    EngineUnreachable,
    ImageMissing,
    NotOurs,
    RuntimeMissing,
)
from tests.helpers.fake_engine import VERSION, Behaviour, after_version, answer, fake_engine, garbage, hang, hang_up
from tests.helpers.sandbox import make_sandbox

IMAGE = "sha256:" + "0" * 64


def test_no_socket_is_an_unreachable_engine(tmp_path: Path) -> None:
    with pytest.raises(EngineUnreachable) as caught:
        Engine(f"unix://{tmp_path}/none.sock").ping()
    assert caught.value.exit_code == 3
    assert "DOCKER_HOST" in caught.value.fix


def test_a_socket_that_nobody_listens_on_is_an_unreachable_engine() -> None:
    with tempfile.TemporaryDirectory() as directory, socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{directory}/s")
        with pytest.raises(EngineUnreachable):
            Engine(f"unix://{directory}/s").ping()


def test_an_address_that_is_none_is_an_unreachable_engine() -> None:
    with pytest.raises(EngineUnreachable):
        Engine("what is this").ping()


@pytest.mark.parametrize("behaviour", [hang, after_version(hang)], ids=["at once", "after the first answer"])
def test_an_engine_that_hangs_is_a_timeout_within_the_deadline(behaviour: Behaviour) -> None:
    with fake_engine(behaviour) as host:
        engine = Engine(host, timeout_s=0.3)
        begun = monotonic()
        with pytest.raises(EngineTimeout) as caught:
            engine.ping()
        assert monotonic() - begun < 20  # it hangs for thirty
        assert "0.3 s" in caught.value.message


@pytest.mark.parametrize("behaviour", [hang_up, after_version(hang_up)], ids=["at once", "after the first answer"])
def test_an_engine_that_hangs_up_is_a_lost_connection(behaviour: Behaviour) -> None:
    with fake_engine(behaviour) as host, pytest.raises(EngineConnectionLost):
        Engine(host, timeout_s=60).ping()


def test_something_else_at_the_address_is_named() -> None:
    with fake_engine(garbage) as host, pytest.raises((EngineConnectionLost, EngineUnreachable)):
        Engine(host, timeout_s=60).ping()


def test_an_old_engine_is_named() -> None:
    with fake_engine(answer({**VERSION, "ApiVersion": "1.40"})) as host, pytest.raises(EngineTooOld):
        Engine(host, timeout_s=60).ping()


REFUSALS: list[tuple[type[SandboxError], str, str]] = [
    (ImageMissing, "404 Not Found", "No such image: sha256:0"),
    (ContainerGone, "404 Not Found", "No such container: x"),
    (RuntimeMissing, "400 Bad Request", "Unknown runtime specified runsc"),
    (EngineRefused, "500 Internal Server Error", "it broke"),
    (EngineRefused, "409 Conflict", "the name is in use"),
]


@pytest.mark.parametrize(("error", "status", "message"), REFUSALS)
def test_what_an_engine_refuses_has_its_own_error(error: type[SandboxError], status: str, message: str) -> None:
    with fake_engine(after_version(answer({"message": message}, status))) as host:
        engine = Engine(host, timeout_s=60)
        with pytest.raises(SandboxError) as caught:
            engine.create({"Image": IMAGE, "Labels": {"io.cloche.home": "x"}}, name="n")
        assert type(caught.value) is error
        assert caught.value.exit_code == 3


def test_a_container_without_labels_is_neither_created_nor_killed_nor_removed() -> None:
    strange = {"Id": "x", "Config": {"Labels": {"com.example": "theirs"}}}
    with fake_engine(after_version(answer(strange))) as host:
        engine = Engine(host, timeout_s=60)
        with pytest.raises(NotOurs):
            engine.create({"Image": IMAGE, "Labels": {}}, name="n")
        for verb in (engine.kill, engine.remove, engine.destroy):
            with pytest.raises(NotOurs):
                verb("x")


def after_info(then: Behaviour) -> Behaviour:
    """Says who it is, then does something else."""
    first = answer({"ID": "fake", "DockerRootDir": "/fake"})
    return lambda connection, request: (first if b"/info" in request else then)(connection, request)


@pytest.fixture
def own_uids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks that no killed process has left its mark on: with a mark on each, a claim would ask the engine."""
    monkeypatch.setattr(uids, "DIRECTORIES", (tmp_path / "uids",))
    monkeypatch.setattr(uids, "OF_ROOT", tmp_path / "none of root")


@pytest.mark.usefixtures("own_uids")
@pytest.mark.parametrize(
    ("behaviour", "error", "left"),
    [
        (hang, EngineTimeout, 0),
        (hang_up, EngineConnectionLost, 0),
        (after_version(hang), EngineTimeout, 0),
        (after_version(after_info(hang)), EngineTimeout, 1),
    ],
    ids=["hangs", "hangs up", "hangs after its version", "hangs when a container is to be made"],
)
def test_a_cell_on_a_bad_engine_fails_in_time_and_what_may_be_there_is_left_to_the_reaper(
    behaviour: Behaviour, error: type[SandboxError], left: int, tmp_path: Path
) -> None:
    async def try_it(host: str) -> None:
        sandbox = make_sandbox(tmp_path, Engine(host, timeout_s=0.3))
        async with open_cell(sandbox, image_id=IMAGE, kind="run", deadline_s=5):
            pytest.fail("a cell was opened")

    begun = monotonic()
    with fake_engine(behaviour) as host, pytest.raises(error):
        anyio.run(try_it, host)
    assert monotonic() - begun < 20
    assert len(list((tmp_path / "cells").glob("*"))) == left


@pytest.mark.usefixtures("own_uids")
def test_a_cell_without_an_engine_leaves_nothing(tmp_path: Path) -> None:
    async def try_it() -> None:
        sandbox = make_sandbox(tmp_path, Engine(f"unix://{tmp_path}/none.sock"))
        async with open_cell(sandbox, image_id=IMAGE, kind="run", deadline_s=5):
            pytest.fail("a cell was opened")

    with pytest.raises(EngineUnreachable):
        anyio.run(try_it)
    assert list((tmp_path / "cells").glob("*")) == []
