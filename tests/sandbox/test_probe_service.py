"""No job before the probe held with this engine, image and policy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import docker
import pytest

from engine.errors import PolicyMismatch
from engine.sandbox.docker import Engine
from engine.sandbox.policy import CellPolicy, Kind, Runtime
from engine.sandbox.probe_report import ProbeReport
from engine.sandbox.probed import ProbeNotHeld, key_of, passed, probe_first
from engine.sandbox.service import Sandbox
from tests.helpers.commands import Commands, home_with_image, package
from tests.helpers.sandbox import make_sandbox, nothing_left

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.anyio,
    pytest.mark.runc_only("a minute of probes; when one is due is the host's decision"),
]


class Leaking(Sandbox):
    """A sandbox whose cells get a variable more, as by a mistake in the policy itself, which nothing compares with another."""

    def policy(self, kind: Kind, runtime: Runtime = "runc") -> CellPolicy:
        return super().policy(kind, runtime).with_environment({"AWS_SECRET_ACCESS_KEY": "x"})


async def test_the_first_job_probes_the_next_ones_do_not_and_two_at_once_probe_once(
    sandbox: Sandbox, image_id: str
) -> None:
    told: list[str] = []
    reports: list[ProbeReport | None] = []

    async def one() -> None:
        reports.append(await probe_first(sandbox, image_id=image_id, progress=told.append))

    async with anyio.create_task_group() as both:
        both.start_soon(one)
        both.start_soon(one)
    (made,) = (report for report in reports if report is not None)
    assert made.held
    assert len(told) == 1
    assert await probe_first(sandbox, image_id=image_id) is None


async def test_a_cell_that_does_not_hold_refuses_every_job_and_is_not_kept_as_passed(
    tmp_path: Path, engine: Engine, image_id: str
) -> None:
    full = make_sandbox(tmp_path / "home", engine)
    leaking = Leaking(full.settings, full.clock, engine)
    with nothing_left(leaking):
        with pytest.raises(ProbeNotHeld, match="environment_variables got through"):
            await probe_first(leaking, image_id=image_id)
        assert passed(full.settings.home) == ()


@pytest.fixture
def image_with_a_secret(engine: Engine, image_id: str) -> Iterator[str]:
    """The cell image with one variable more in its configuration."""
    client = docker.APIClient(base_url=engine.host, version="1.41")
    made = client.create_container(image_id, entrypoint=["/opt/cloche/python"])["Id"]
    try:
        image = str(client.commit(made, changes=["ENV CLOCHE_PROBE_IMAGE_TOKEN=planted"])["Id"])
    finally:
        client.remove_container(made)
    yield image
    client.remove_image(image)
    client.close()


async def test_an_image_whose_configuration_carries_a_variable_gets_no_job(
    sandbox: Sandbox, image_with_a_secret: str
) -> None:
    with pytest.raises(PolicyMismatch, match="CLOCHE_PROBE_IMAGE_TOKEN"):
        await probe_first(sandbox, image_id=image_with_a_secret)
    assert passed(sandbox.settings.home) == ()


def test_another_runtime_engine_image_or_policy_is_another_key(sandbox: Sandbox, image_id: str) -> None:
    other_policy = replace(sandbox, settings=sandbox.settings.model_copy(update={"processes": 64}))
    elsewhere = Sandbox(sandbox.settings, sandbox.clock, Engine("unix:///elsewhere.sock", timeout_s=1))
    elsewhere.engine.version = sandbox.engine.version  # type: ignore[method-assign]
    keys = [
        key_of(sandbox, "runc", image_id),
        key_of(sandbox, "runsc", image_id),
        key_of(sandbox, "runc", "sha256:other"),
        key_of(other_policy, "runc", image_id),
        key_of(elsewhere, "runc", image_id),
    ]
    assert len(set(keys)) == len(keys)
    assert sandbox.engine.version().version in keys[0]
    assert sandbox.engine.version().kernel in keys[0]


def test_a_command_that_needs_a_cell_probes_a_home_that_was_never_probed(tmp_path: Path, image_id: str) -> None:
    home = home_with_image(tmp_path / "home")
    (home / "probed.json").unlink()
    answer = Commands(home)("workflows", "test", package(tmp_path, "first", "def first(task): return task\n"))
    assert answer.code == 0, answer
    assert len(passed(home)) == 1
