"""The probe: holds on a full cell, and no protection can be taken away unnoticed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from engine.errors import AttestationFailed
from engine.sandbox.attempts import attempts, select
from engine.sandbox.policy import CellPolicy
from engine.sandbox.probes import probe
from engine.sandbox.service import Sandbox

pytestmark = pytest.mark.sandbox

GIB = 1024**3


def allowing(name: str, policy: CellPolicy) -> CellPolicy:
    """The policy with one more system call."""
    profile = json.loads(policy.seccomp)
    profile["syscalls"].append({"names": [name], "action": "SCMP_ACT_ALLOW"})
    return policy.with_seccomp(json.dumps(profile))


WEAKER: dict[str, tuple[str, Callable[[CellPolicy, Path], CellPolicy]]] = {
    "a socket call": ("network_inet", lambda policy, _: allowing("socket", policy)),
    "a socket call, netlink": ("network_netlink", lambda policy, _: allowing("socket", policy)),
    "a socket call, unix": ("network_unix_path", lambda policy, _: allowing("socket", policy)),
    "the host's network": ("network_interface", lambda policy, _: policy.with_network("host")),
    "a variable more": (
        "environment_variables",
        lambda policy, _: policy.with_environment({"AWS_SECRET_ACCESS_KEY": "planted"}),
    ),
    "a mount of the host": ("files_host_path", lambda policy, home: policy.with_mount(home, str(home))),
    "an executable /tmp": (
        "files_execute_tmp",
        lambda policy, _: allowing(
            "chmod", policy.with_tmpfs("/tmp", dict(policy.tmpfs)["/tmp"].replace("noexec", "exec"))
        ),
    ),
    "a large /tmp": (
        "tmp_flood",
        lambda policy, _: policy.with_tmpfs("/tmp", "size=300m,mode=1777,noexec,nosuid,nodev"),
    ),
    "many open files": (
        "resources_open_files",
        lambda policy, _: replace(policy, limits=replace(policy.limits, open_files=4096)).with_ulimit("nofile", 8192),
    ),
    "large files": (
        "resources_file_size",
        lambda policy, _: (
            replace(policy, limits=replace(policy.limits, file_bytes=GIB))
            .with_ulimit("fsize", GIB)
            .with_tmpfs("/tmp", "size=300m,mode=1777,noexec,nosuid,nodev")
        ),
    ),
    "sparse files": (
        "resources_sparse_file",
        lambda policy, _: replace(policy, limits=replace(policy.limits, file_bytes=1024 * GIB)).with_ulimit(
            "fsize", 1024 * GIB
        ),
    ),
    "inodes without number": (
        "resources_inodes",
        lambda policy, _: policy.with_tmpfs("/tmp", "size=64m,mode=1777,noexec,nosuid,nodev"),
    ),
    "reserved space": ("resources_reserved_space", lambda policy, _: allowing("fallocate", policy)),
    "a key ring": ("kernel_keyring", lambda policy, _: allowing("keyctl", policy)),
    "namespaces": ("kernel_namespace_user", lambda policy, _: allowing("unshare", policy)),
}


def test_every_attempt_is_blocked_in_a_full_cell_and_gets_through_without_protection(
    sandbox: Sandbox, image_id: str
) -> None:
    async def probed() -> None:
        report = await probe(sandbox, image_id=image_id)
        assert {row.name: row.verdict for row in report.rows} == {
            one.name: "blocked" for one in attempts() if one.kind == "attempt"
        }
        assert len(report.rows) > 60
        assert report.held

    anyio.run(probed)


@pytest.mark.parametrize("protection", WEAKER)
def test_a_cell_without_a_protection_is_refused_before_any_code_or_found_out_by_the_probe(
    protection: str, sandbox: Sandbox, image_id: str
) -> None:
    name, weaken = WEAKER[protection]

    async def probed() -> str:
        policy = weaken(sandbox.policy("probe"), sandbox.settings.home)
        try:
            report = await probe(sandbox, image_id=image_id, policy=policy, chosen=select(only=[name]))
        except AttestationFailed:
            return "refused"
        assert not report.held
        return report.rows[0].verdict

    assert anyio.run(probed) in ("refused", "through")
