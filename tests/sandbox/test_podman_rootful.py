"""The same cells over Podman's Docker-compatible socket, run by root: what holds, and what is found when it is taken away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import AttestationFailed, PolicyMismatch
from engine.sandbox import attest, podman
from engine.sandbox.cell import open_cell
from engine.sandbox.docker import Engine
from engine.sandbox.engine_errors import RuntimeMissing
from engine.sandbox.outcome import Cause
from engine.sandbox.policy import CellPolicy
from engine.sandbox.service import Sandbox
from tests.helpers.podman_engine import loaded, podman_engine
from tests.helpers.sandbox import containers_of, make_sandbox, nothing_left, run_package, snapshot
from tests.sandbox.test_cell_policy import WEAKER

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.anyio,
    pytest.mark.runc_only("Podman's engines here have runc"),
]


@pytest.fixture(scope="module")
def podman_socket() -> Iterator[tuple[Engine, str]]:
    with podman_engine() as service:
        engine, image_id = loaded(service)
        yield engine, image_id
        engine.close()


@pytest.fixture
def sandbox(tmp_path: Path, podman_socket: tuple[Engine, str]) -> Iterator[Sandbox]:
    made = make_sandbox(tmp_path / "home", podman_socket[0], runtime="runc")
    with nothing_left(made):
        yield made


@pytest.fixture
def image_id(podman_socket: tuple[Engine, str]) -> str:
    return podman_socket[1]


async def test_a_package_runs_and_its_cell_is_what_the_policy_says(
    sandbox: Sandbox, image_id: str, tmp_path: Path
) -> None:
    async with open_cell(sandbox, image_id=image_id, kind="run", deadline_s=5) as cell:
        assert attest.differences(cell.attestation, podman.adapted(sandbox.policy("run")), uid=cell.uid) == ()
        assert cell.limits_in_force is not None
        assert attest.cgroup_differences(cell.limits_in_force, sandbox.policy("run")) == ()
        writable = {mount["point"] for mount in cell.attestation["mounts"] if "ro" not in mount["options"]}
        assert {point for point in writable if not point.startswith(("/proc", "/sys/fs/cgroup"))} == {
            *("/tmp", "/cloche/out/000001.seg", "/cloche/out/000002.seg")  # and no /run, /var/tmp, /dev, /dev/shm
        }
    body = """
        import os, pathlib
        def sample(task):
            pathlib.Path("/tmp/output").mkdir()
            pathlib.Path("/tmp/output/a").write_text("made")
            return {"uid": os.getuid() > 60_000, "task": task}
    """
    story = await run_package(sandbox, image_id, snapshot(tmp_path / "s", body), task=[1])
    assert story.value == {"uid": True, "task": [1]}
    assert story.files == {"a": b"made"}


async def test_memory_and_time_end_a_cell_with_their_names(sandbox: Sandbox, image_id: str, tmp_path: Path) -> None:
    eater = snapshot(tmp_path / "a", "def sample(task):\n    return len(bytearray(1 << 30))\n")
    story = await run_package(sandbox, image_id, eater)
    assert story.ended.cause is Cause.LIMIT_MEMORY
    sleeper = snapshot(tmp_path / "b", "import signal\ndef sample(task):\n    signal.pause()\n")
    story = await run_package(sandbox, image_id, sleeper, deadline_s=1.0)
    assert story.ended.cause is Cause.DEADLINE


async def test_a_runtime_that_this_socket_cannot_choose_is_refused_by_name(sandbox: Sandbox, image_id: str) -> None:
    with pytest.raises(RuntimeMissing, match=r"Podman.* runsc"):
        async with open_cell(sandbox, image_id=image_id, kind="run", deadline_s=5, runtime="runsc"):
            pytest.fail("a cell was opened")


NOT_HELD = {"tmpfs inodes", "cgroup namespace"}
"""Left out of the policy for this engine (docs/reference/engines.md), so that taking them away changes nothing."""

ITS_OWN = {"read-only paths"}
"""Podman takes no list of these and has the same ones by itself."""


@pytest.mark.parametrize("name", sorted(set(WEAKER) - NOT_HELD - ITS_OWN))
async def test_a_protection_taken_away_is_found_here_too(sandbox: Sandbox, image_id: str, name: str) -> None:
    full = sandbox.policy("run")
    weaker: CellPolicy = WEAKER[name](full)
    with pytest.raises((PolicyMismatch, AttestationFailed)):
        async with open_cell(sandbox, image_id=image_id, kind="run", deadline_s=5, policy=weaker, claimed=full):
            pytest.fail("a weaker cell was opened")
    assert containers_of(sandbox) == []
