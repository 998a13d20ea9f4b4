"""The attestation against the policy: every lie, gap and difference is a sentence."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.sandbox.attest import MUST_FAIL, MUST_FAIL_BY_SECCOMP, cgroup_differences, differences
from engine.sandbox.cgroup import LimitsInForce
from engine.sandbox.policy import CellPolicy
from engine.settings import Settings

UID = 60800
FLAGS = ["rw", "nosuid", "nodev", "noexec"]


@pytest.fixture
def policy(tmp_path: Path) -> CellPolicy:
    return CellPolicy.from_settings(Settings(home=tmp_path), "runc", "run")


def process(policy: CellPolicy, *, uid: int, gid: int, mask: str, **rlimits: int) -> dict[str, Any]:
    return {
        "pid": 1,
        "uids": [uid] * 4,
        "gids": [gid] * 4,
        "groups": [],
        "capabilities": {
            "inheritable": "0000000000000000",
            "permitted": mask,
            "effective": mask,
            "bounding": "00000000000000e0",
            "ambient": "0000000000000000",
        },
        "no_new_privs": 1,
        "seccomp": 2,
        "rlimits": {name: [value, value] for name, value in rlimits.items()},
    }


def good(policy: CellPolicy) -> dict[str, Any]:
    limits = policy.limits
    worker = process(
        policy,
        uid=UID,
        gid=UID,
        mask="0000000000000000",
        core=0,
        fsize=limits.file_bytes,
        nofile=limits.open_files,
        nproc=limits.processes,
    )
    worker["tried"] = dict.fromkeys((*MUST_FAIL, *MUST_FAIL_BY_SECCOMP), "EPERM")
    return {
        "version": 1,
        "guest_sha256": "0" * 64,
        "kernel": "4.4.0",
        "supervisor": process(policy, uid=0, gid=policy.group, mask="00000000000000e0", **dict(policy.ulimits)),
        "worker": worker,
        "mounts": [
            mount("/", "overlay", ["ro"]),
            mount("/proc", "proc", FLAGS),
            mount("/dev", "tmpfs", ["ro", "nosuid"]),
            mount("/sys", "sysfs", ["ro"]),
            mount("/tmp", "tmpfs", FLAGS, ["rw", "size=65536k", "nr_inodes=16384"]),
            mount("/cloche/in", "ext4", ["ro"]),
            mount("/cloche/out", "ext4", ["ro"]),
            mount("/etc/hosts", "ext4", ["ro"]),
            mount("/proc/sys", "proc", ["ro"]),
            {**mount("/proc/kcore", "tmpfs", ["rw"]), "root": "/null"},
            mount("/cloche/out/000001.seg", "ext4", ["rw"]),
            mount("/cloche/out/000002.seg", "ext4", ["rw"]),
        ],
        "interfaces": ["lo"],
        "routes": [],
        "environment": ["HOME", "HOSTNAME", "PATH"],
    }


def mount(point: str, kind: str, options: list[str], super_options: list[str] | None = None) -> dict[str, Any]:
    return {"point": point, "root": "/", "type": kind, "options": options, "super_options": super_options or ["rw"]}


def test_a_cell_as_it_should_be_has_no_difference(policy: CellPolicy) -> None:
    assert differences(good(policy), policy, uid=UID) == ()


Change = Callable[[dict[str, Any]], Any]

CHANGES: list[tuple[str, Change]] = [
    ("version 2", lambda a: a.update(version=2)),
    ("uids", lambda a: a["worker"].update(uids=[UID, UID, 0, UID])),
    ("uids", lambda a: a["worker"].update(uids=[0] * 4)),
    ("gids", lambda a: a["supervisor"].update(gids=[1] * 4)),
    ("groups", lambda a: a["worker"].update(groups=[0])),
    ("groups", lambda a: a["supervisor"].update(groups=[999])),
    ("process 7", lambda a: a["supervisor"].update(pid=7)),
    ("effective capabilities of the worker", lambda a: a["worker"]["capabilities"].update(effective="1")),
    ("ambient capabilities of the worker", lambda a: a["worker"]["capabilities"].update(ambient="80")),
    ("bounding capabilities", lambda a: a["supervisor"]["capabilities"].update(bounding="1ffffffffff")),
    ("inheritable", lambda a: a["supervisor"]["capabilities"].update(inheritable="e0")),
    ("no-new-privileges", lambda a: a["worker"].update(no_new_privs=0)),
    ("seccomp filter", lambda a: a["supervisor"].update(seccomp=0)),
    ("limit nproc of the worker", lambda a: a["worker"]["rlimits"].update(nproc=[128, -1])),
    ("limit core of the supervisor", lambda a: a["supervisor"]["rlimits"].update(core=[-1, -1])),
    ("succeeded in socket_inet", lambda a: a["worker"]["tried"].update(socket_inet="ok")),
    ("succeeded in signal_supervisor", lambda a: a["worker"]["tried"].update(signal_supervisor="ok")),
    ("did not try write_out", lambda a: a["worker"]["tried"].pop("write_out")),
    ("/ is writable", lambda a: a["mounts"][0].update(options=["rw"])),
    ("/cloche/in is writable", lambda a: a["mounts"][5].update(options=["rw"])),
    ("nothing is mounted at /cloche/out", lambda a: a["mounts"].pop(6)),
    ("/dev is writable", lambda a: a["mounts"][2].update(options=["rw", "nosuid"])),
    ("/dev/mqueue is writable", lambda a: a["mounts"].append(mount("/dev/mqueue", "mqueue", ["rw"]))),
    ("/sys/fs/cgroup is writable", lambda a: a["mounts"].append(mount("/sys/fs/cgroup", "tmpfs", ["rw"]))),
    ("/cloche/out is writable", lambda a: a["mounts"][6].update(options=["rw"])),
    ("nothing is mounted at /cloche/out/000002.seg", lambda a: a["mounts"].pop()),
    (
        "/cloche/out/000003.seg is mounted",
        lambda a: a["mounts"].append(mount("/cloche/out/000003.seg", "ext4", ["rw"])),
    ),
    ("/tmp is no tmpfs", lambda a: a["mounts"].pop(4)),
    ("without noexec", lambda a: a["mounts"][4].update(options=["rw", "nosuid", "nodev"])),
    ("has size", lambda a: a["mounts"][4].update(super_options=["rw"])),
    ("/var/run/docker.sock is mounted", lambda a: a["mounts"].append(mount("/var/run/docker.sock", "tmpfs", ["ro"]))),
    ("/dev/shm is mounted", lambda a: a["mounts"].append(mount("/dev/shm", "tmpfs", ["rw"]))),
    ("/proc/sys is writable", lambda a: a["mounts"][8].update(options=["rw"])),
    ("/cloche/in is writable", lambda a: a["mounts"].append(mount("/cloche/in", "ext4", ["rw"]))),
    ("interfaces: eth0", lambda a: a.update(interfaces=["lo", "eth0"])),
    ("1 network routes", lambda a: a.update(routes=["eth0 ..."])),
    ("AWS_SECRET", lambda a: a["environment"].append("AWS_SECRET")),
    ("another shape", lambda a: a.pop("mounts")),
    ("another shape", lambda a: a.update(supervisor=[])),
    ("another shape", lambda a: a["worker"].update(rlimits={})),
    ("another shape", lambda a: a["worker"]["capabilities"].update(effective="zz")),
]


@pytest.mark.parametrize(("told", "change"), CHANGES)
def test_each_difference_is_found(policy: CellPolicy, told: str, change: Change) -> None:
    attestation = copy.deepcopy(good(policy))
    change(attestation)
    assert told in "; ".join(differences(attestation, policy, uid=UID))


def test_under_gvisor_sockets_may_exist_and_the_filter_may_not_be_shown(tmp_path: Path) -> None:
    runsc = CellPolicy.from_settings(Settings(home=tmp_path), "runsc", "run")
    attestation = good(runsc)
    attestation["worker"]["tried"].update(socket_inet="ok", socket_inet6="ok", socket_netlink="ok")
    for who in ("worker", "supervisor"):
        attestation[who]["no_new_privs"] = -1
        attestation[who]["capabilities"]["ambient"] = ""
    attestation["mounts"][4].update(options=["rw", "noexec"], super_options=["rw", "size=67108864", "mode=1777"])
    attestation["worker"]["seccomp"] = attestation["supervisor"]["seccomp"] = 0
    assert differences(attestation, runsc, uid=UID) == ()
    attestation["worker"]["tried"]["socket_vsock"] = "ok"
    assert differences(attestation, runsc, uid=UID) != ()


def test_cgroup_limits_are_compared_one_by_one(policy: CellPolicy) -> None:
    right = LimitsInForce(policy.memory, policy.memory, policy.pids, 1.0)
    assert cgroup_differences(right, policy) == ()
    for wrong in (
        LimitsInForce(None, policy.memory, policy.pids, 1.0),
        LimitsInForce(policy.memory * 2, policy.memory, policy.pids, 1.0),
        LimitsInForce(policy.memory, None, policy.pids, 1.0),
        LimitsInForce(policy.memory, policy.memory, policy.pids + 1, 1.0),
        LimitsInForce(policy.memory, policy.memory, None, 1.0),
        LimitsInForce(policy.memory, policy.memory, policy.pids, None),
        LimitsInForce(policy.memory, policy.memory, policy.pids, 2.0),
    ):
        assert len(cgroup_differences(wrong, policy)) == 1
