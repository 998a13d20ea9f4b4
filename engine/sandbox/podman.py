"""Podman's socket that speaks Docker's API: what has to be said to it in other words, and what it shows in other words.

Owns that dialect and nothing else: the policy is the same, and so are readback and attestation. Each difference is named here and
translated only where it is exactly what Podman makes of what was asked; everything else stays, and is found by the readback. What
the socket does not show at all (masked and read-only paths, the IPC mode, the runtime) rests on the attestation alone. Measured
with Podman 4.3.1 and runc 1.1.5 on cgroup v1 (docs/reference/engines.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.sandbox.docker import EngineVersion
from engine.sandbox.engine_errors import RuntimeMissing
from engine.sandbox.policy import CellPolicy

COMPONENT = "Podman Engine"
PROFILE = "seccomp.json"
"""The profile as a file, beside `cell.json`: here `seccomp=` is a path and not a text."""

DEFAULT_CAPABILITIES = frozenset(
    (
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE"),
        *("NET_RAW", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    )
)
ADDED_VARIABLES = (("HOSTNAME", "cell"), ("TERM", "xterm"), ("container", "podman"))
CLOSED = {"/run": "ro,size=4096,noexec,nosuid,nodev", "/var/tmp": "ro,size=4096,noexec,nosuid,nodev"}
"""Where Podman mounts a writable tmpfs without a bound, unless it is told of another one."""

DEVICES = {"/dev": "ro,size=65536,mode=755,noexec,nosuid"}
"""With this one there are neither terminals nor message queues below it."""

TMPFS_ADDITIONS = {"rw", "rprivate", "tmpcopyup"}
SHM_SHOWN = 65_536_000


def speaks(version: EngineVersion) -> bool:
    """Whether it is Podman that answers."""
    return COMPONENT in version.components


def adapted(policy: CellPolicy) -> CellPolicy:
    """The policy as far as this engine can hold it, and with what it adds stated.

    Left out: the number of inodes in /tmp (memory bounds them) and the cgroup namespace (none on cgroup v1, and not shown).

    Raises:
        RuntimeMissing: another runtime than runc was asked for; this API does not let a client choose.
    """
    if policy.runtime != "runc":
        raise RuntimeMissing(
            f"Podman's Docker-compatible socket does not let a client choose the runtime {policy.runtime}.",
            fix="Set CLOCHE_RUNTIME to runc, or use Docker.",
        )
    tmpfs = {path: _without_inodes(options) for path, options in policy.tmpfs}
    environment = dict(policy.environment) | dict(ADDED_VARIABLES)
    return replace(
        policy,
        tmpfs=tuple((tmpfs | CLOSED | DEVICES).items()),
        environment=tuple(environment.items()),
        cgroup_namespace="",
        shm_bytes=0 if policy.ipc == "none" else policy.shm_bytes,
    )


def request(body: Mapping[str, Any], profile: Path) -> dict[str, Any]:
    """The body of a create call in Podman's words; writes the seccomp profile to a file that the engine reads."""
    host = dict(body["HostConfig"])
    options = []
    for option in host["SecurityOpt"]:
        name, _, text = option.partition("=")
        if name == "seccomp" and text != "unconfined":
            profile.write_text(text, encoding="utf-8")
            option = f"seccomp={profile}"
        options.append(option)
    if host["MaskedPaths"]:
        options.append(f"mask={':'.join(host['MaskedPaths'])}")
    return {**body, "HostConfig": {**host, "SecurityOpt": options}}


def as_docker(asked: Mapping[str, Any], inspected: Mapping[str, Any], profile: Path) -> dict[str, Any]:
    """What Podman shows of a container, in Docker's words where it is what was asked for."""
    wanted, host = asked["HostConfig"], dict(inspected.get("HostConfig") or {})
    _security(host, profile)
    _capabilities(wanted, host)
    _mounts(wanted, host)
    _limits(wanted, host)
    _namespaces(wanted, host)
    have = host.get("Tmpfs") or {}
    host["Tmpfs"] = {path: _tmpfs(wanted["Tmpfs"].get(path, ""), options) for path, options in have.items()}
    if host.get("LogConfig") == {"Type": wanted["LogConfig"]["Type"], "Config": None}:
        host["LogConfig"] = wanted["LogConfig"]
    for name in ("MaskedPaths", "ReadonlyPaths"):  # never shown
        if host.get(name) is None:
            host[name] = wanted[name]
    return {**inspected, "HostConfig": host}


def _security(host: dict[str, Any], profile: Path) -> None:
    """The text is what the file holds: that the engine read the same is seen from inside only."""
    path = f"seccomp={profile}"
    host["SecurityOpt"] = [
        f"seccomp={profile.read_text(encoding='utf-8')}" if option == path else option
        for option in host.get("SecurityOpt") or []
    ]


def _capabilities(wanted: Mapping[str, Any], host: dict[str, Any]) -> None:
    """`ALL` dropped and some added is shown as the default ones that are missing."""
    kept = frozenset(wanted["CapAdd"])
    missing = sorted(DEFAULT_CAPABILITIES - kept)
    shown = (host.get("CapAdd"), sorted(host.get("CapDrop") or []))
    if wanted["CapDrop"] == ["ALL"] and kept <= DEFAULT_CAPABILITIES and shown == ([], missing):
        host["CapAdd"], host["CapDrop"] = wanted["CapAdd"], wanted["CapDrop"]


def _mounts(wanted: Mapping[str, Any], host: dict[str, Any]) -> None:
    """Mounts are shown as binds."""
    if host.get("Mounts") is not None:
        return
    expected = {
        (mount["Source"], mount["Target"], frozenset(("ro" if mount["ReadOnly"] else "rw", "rprivate", "bind")))
        for mount in wanted["Mounts"]
    }
    if {_bind(text) for text in host.get("Binds") or []} == expected:
        host["Mounts"], host["Binds"] = wanted["Mounts"], None


def _bind(text: str) -> tuple[str, str, frozenset[str]]:
    source, _, rest = text.partition(":")
    target, _, options = rest.partition(":")
    return source, target, frozenset(options.split(","))


def _limits(wanted: Mapping[str, Any], host: dict[str, Any]) -> None:
    """Limits carry the kernel's names, and the CPU bound is shown twice."""
    shown = [{**one, "Name": str(one["Name"]).removeprefix("RLIMIT_").lower()} for one in host.get("Ulimits") or []]
    host["Ulimits"] = sorted(shown, key=lambda one: str(one["Name"]))
    period, quota = host.get("CpuPeriod"), host.get("CpuQuota")
    if period and quota and quota * 10**9 == wanted["NanoCpus"] * period:
        host["CpuPeriod"] = host["CpuQuota"] = 0


def _namespaces(wanted: Mapping[str, Any], host: dict[str, Any]) -> None:
    """A private namespace has a name here; no IPC is shown as if there were one, and the runtime never."""
    for name, shown, meant in (("PidMode", "private", ""), ("UTSMode", "private", "")):
        if host.get(name) == shown:
            host[name] = meant
    if wanted["IpcMode"] == "none" and (host.get("IpcMode"), host.get("ShmSize")) == ("shareable", SHM_SHOWN):
        host["IpcMode"], host["ShmSize"] = wanted["IpcMode"], wanted["ShmSize"]
    if host.get("Runtime") == "oci":
        host["Runtime"] = wanted["Runtime"]


def _tmpfs(wanted: str, shown: str) -> str:
    asked = wanted.split(",")
    kept = [option for option in shown.split(",") if option in asked or option not in TMPFS_ADDITIONS]
    return ",".join(kept)


def _without_inodes(options: str) -> str:
    return ",".join(option for option in options.split(",") if not option.startswith("nr_inodes="))
