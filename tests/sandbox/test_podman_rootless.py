"""A rootless engine on cgroup v1 keeps no limits and says so only in its log: every cell on it is refused, by name."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.doctor import runtime_finding
from engine.sandbox.docker import Engine
from tests.helpers.podman_engine import PodmanEngine, loaded, podman_engine
from tests.helpers.sandbox import containers_of, make_sandbox, nothing_left, run_package, snapshot

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.runc_only("Podman's engines here have runc"),
]


@pytest.fixture(scope="module")
def told() -> Iterator[dict[str, Any]]:
    """What its user was told: by a run, and by the doctor; and what was left."""
    assert not Path("/sys/fs/cgroup/cgroup.controllers").exists(), "on cgroup v2 a rootless engine keeps limits"
    with podman_engine(rootless=True) as service:
        connection, image_id = loaded(service)
        connection.close()
        yield {
            "run": service.as_its_user(lambda: _run(service, image_id)),
            "doctor": service.as_its_user(lambda: _doctor(service, image_id)),
        }


def _run(service: PodmanEngine, image_id: str) -> object:
    sandbox = make_sandbox(service.home / "home", Engine(service.host, timeout_s=60), runtime="runc")
    package = snapshot(service.home / "s", "def sample(task):\n    return 'ran'\n")
    with nothing_left(sandbox):
        return asyncio.run(run_package(sandbox, image_id, package)).value


def _doctor(service: PodmanEngine, image_id: str) -> str:
    sandbox = make_sandbox(service.home / "home", Engine(service.host, timeout_s=60), runtime="runc")
    finding = asyncio.run(runtime_finding(sandbox, "runc", image_id))
    return json.dumps({**finding.to_dict(), "left": containers_of(sandbox)})


def test_no_code_is_delivered_to_a_cell_without_limits(told: dict[str, Any]) -> None:
    assert told["run"].get("code") == "limits_ignored", told["run"]
    for field in ("Memory", "MemorySwap", "NanoCpus", "PidsLimit"):
        assert f"HostConfig.{field}: asked for " in told["run"]["message"]
    assert "cgroup v2" in told["run"]["fix"]


def test_the_doctor_says_in_a_sentence_what_is_wrong_with_the_engine_and_what_to_do(told: dict[str, Any]) -> None:
    finding = json.loads(told["doctor"]["value"])
    assert finding["state"] == "missing"
    assert finding["detail"].startswith(
        "the engine keeps no limits for containers, as rootless engines on cgroup v1 do"
    )
    assert "cgroup v2" in finding["fix"]
    assert finding["left"] == []
