"""The policy as text: what it asks of an engine, how it is compared, and what it claims."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from engine.sandbox import readback, seccomp
from engine.sandbox.policy import CellPolicy
from engine.sandbox.protections import protections
from engine.settings import Settings

FORBIDDEN = {
    *("ptrace", "process_vm_readv", "process_vm_writev", "mount", "umount2", "pivot_root", "chroot", "unshare", "setns"),
    *("bpf", "perf_event_open", "io_uring_setup", "io_uring_enter", "keyctl", "add_key", "request_key", "userfaultfd"),
    *("init_module", "finit_module", "kexec_load", "socket", "connect", "bind", "listen", "accept", "accept4"),
    *("sched_setaffinity", "sched_setscheduler", "sched_setattr", "setpriority", "pidfd_open", "pidfd_send_signal"),
    *("clone3", "open_by_handle_at", "quotactl", "reboot", "swapon", "acct", "setxattr", "mknod", "mknodat", "capset"),
}  # fmt: skip

IOCTLS = {0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451}
"""TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX (ioctl_tty(2), asm-generic/ioctls.h)."""


@pytest.fixture
def policy(tmp_path: Path) -> CellPolicy:
    return CellPolicy.from_settings(Settings(home=tmp_path), "runc", "run")


def asked_of(policy: CellPolicy) -> dict[str, Any]:
    return policy.container(
        image_id="sha256:1", inbox=Path("/h/in"), outbox=Path("/h/out"), labels={"io.cloche.home": "h"}
    )


def inspected_of(asked: dict[str, Any]) -> dict[str, Any]:
    """What an engine shows of a container that it made as asked (Docker 20.10)."""
    config = {key: value for key, value in asked.items() if key != "HostConfig"}
    return copy.deepcopy(
        {
            "Image": asked["Image"],
            "Config": {**config, "Cmd": None, "Labels": {**asked["Labels"], "io.cloche.image": "cell"}},
            "HostConfig": {**asked["HostConfig"], "ConsoleSize": [0, 0], "Binds": None, "Isolation": ""},
            "Mounts": [
                {"Destination": m["Target"], "Source": m["Source"], "RW": not m["ReadOnly"]}
                for m in asked["HostConfig"]["Mounts"]
            ],
        }
    )


def test_the_list_of_system_calls_lets_nothing_dangerous_through() -> None:
    rules = json.loads(seccomp.text("runc"))["syscalls"]
    allowed = {name for rule in rules if rule["action"] == "SCMP_ACT_ALLOW" for name in rule["names"]}
    assert not allowed & FORBIDDEN
    assert {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38} in rules


def test_nothing_is_allocated_past_the_size_bound_of_files() -> None:
    """`fallocate` that keeps the size, and the ioctl that does the same, are not held by RLIMIT_FSIZE (measured on ext4)."""
    rules = json.loads(seccomp.text("runc"))["syscalls"]
    assert not any("fallocate" in rule["names"] for rule in rules)
    found = [rule["args"] for rule in rules if "ioctl" in rule["names"]]
    wanted = {"index": 1, "value": 0xFFFFFFFF, "op": "SCMP_CMP_MASKED_EQ"}
    assert all([{**condition, "valueTwo": 0} for condition in rule] == [{**wanted, "valueTwo": 0}] for rule in found)
    assert {rule[0]["valueTwo"] for rule in found} == IOCTLS


def test_under_gvisor_clone3_is_let_through_because_its_errno_is_not_honoured() -> None:
    rules = json.loads(seccomp.text("runsc"))["syscalls"]
    assert "clone3" in rules[0]["names"]
    assert not any(rule["action"] == "SCMP_ACT_ERRNO" for rule in rules)


def test_the_readback_of_what_was_asked_for_has_no_difference(policy: CellPolicy) -> None:
    asked = asked_of(policy)
    assert readback.differences(asked, inspected_of(asked)) == ()


def test_every_field_that_was_asked_for_is_compared(policy: CellPolicy) -> None:
    asked = asked_of(policy)
    for name, value in asked["HostConfig"].items():
        inspected = inspected_of(asked)
        inspected["HostConfig"][name] = "other" if value != "other" else ""
        assert any(f"HostConfig.{name}" in text for text in readback.differences(asked, inspected)), name
        if value:
            del inspected["HostConfig"][name]
            assert any(f"HostConfig.{name}" in text for text in readback.differences(asked, inspected)), name


@pytest.mark.parametrize(
    ("where", "name", "value"),
    [
        ("HostConfig", "Binds", ["/:/host"]),
        ("HostConfig", "SomethingNew", True),
        ("HostConfig", "UsernsMode", "host"),
        ("HostConfig", "GroupAdd", ["docker"]),
        ("HostConfig", "OomKillDisable", True),
        ("Config", "User", "1000"),
        ("Config", "Entrypoint", ["/bin/sh"]),
        ("Config", "Cmd", ["x"]),
        ("Config", "Env", ["PATH=/usr/bin", "LD_PRELOAD=/x"]),
        ("Config", "Labels", {}),
        ("Config", "Volumes", {"/data": {}}),
        ("Config", "Healthcheck", {"Test": ["CMD", "x"]}),
        ("", "Image", "sha256:2"),
        ("", "Mounts", [{"Destination": "/host", "Source": "/", "RW": True}]),
    ],
)
def test_what_was_not_asked_for_is_a_difference(policy: CellPolicy, where: str, name: str, value: Any) -> None:
    asked = asked_of(policy)
    inspected = inspected_of(asked)
    (inspected[where] if where else inspected)[name] = value
    assert readback.differences(asked, inspected) != ()


def test_dropped_limits_of_a_rootless_engine_are_found(policy: CellPolicy) -> None:
    asked = asked_of(policy)
    inspected = inspected_of(asked)
    inspected["HostConfig"].update(Memory=0, MemorySwap=0, PidsLimit=0, NanoCpus=0, Ulimits=[])
    named = "; ".join(readback.differences(asked, inspected))
    for name in ("Memory", "MemorySwap", "PidsLimit", "NanoCpus", "Ulimits"):
        assert f"HostConfig.{name}" in named


def test_the_digest_follows_every_protection_and_not_the_owner(policy: CellPolicy) -> None:
    others = [
        policy.with_memory(policy.memory * 2),
        policy.with_seccomp("unconfined"),
        policy.with_network("host"),
        policy.with_capabilities(add=()),
        policy.with_ulimit("core", None),
        policy.with_environment({"X": "secret"}),
    ]
    assert len({one.digest for one in (policy, *others)}) == len(others) + 1
    assert policy.with_user(0, policy.group + 1).digest == policy.digest


def test_the_environment_is_an_allow_list_without_anything_like_a_credential(policy: CellPolicy) -> None:
    names = {name for name, _ in policy.environment}
    assert names == {"HOME", "LANG", "LC_ALL", "PATH", "PYTHONHASHSEED", "TZ"}


def test_gvisor_gets_more_host_processes_and_its_policy_says_what_is_ignored(tmp_path: Path) -> None:
    runsc = CellPolicy.from_settings(Settings(home=tmp_path), "runsc", "run")
    assert runsc.pids >= 512
    notes = {rule.protection: rule.note for rule in protections(runsc)}
    assert "ignored" in notes["system calls"]
    assert "ignored" in notes["tmpfs /tmp"]


def test_the_description_under_runc_claims_what_the_container_asks_for(policy: CellPolicy) -> None:
    values = {rule.protection: rule.value for rule in protections(policy)}
    assert values["network"] == "none"
    assert values["memory"] == f"{512 * 1024 * 1024} bytes, swap 0"
    assert values["guest processes"] == "128"
    assert all(rule.enforced_by for rule in protections(policy))


def test_host_processes_leave_room_above_the_guests(policy: CellPolicy) -> None:
    assert policy.pids > policy.limits.processes
