"""What the engine made of a create call, compared with the call field by field, before anything starts.

An engine may drop, normalise or default silently (measured: pids 0 becomes none, memory+swap twice the memory, a rootless
engine on cgroup v1 keeps no limit at all). Anything that was not asked for and is not empty is a difference, also in a field
that a later engine invents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from engine.errors import PolicyMismatch

# What an engine sets by itself in HostConfig, with the values that give a cell nothing.
_OWN_DEFAULTS: dict[str, tuple[Any, ...]] = {
    "ConsoleSize": ([0, 0],),
    "VolumeDriver": ("",),
    "Isolation": ("", "default"),
    "UTSMode": ("",),
    "UsernsMode": ("",),
    "MemorySwappiness": (-1,),
    "Cgroup": ("",),
    "CgroupParent": ("",),
    "BlkioWeight": (0,),
}
_LIMITS = ("HostConfig.Memory:", "HostConfig.MemorySwap:", "HostConfig.PidsLimit:", "HostConfig.NanoCpus:")
_IN_ANY_ORDER = {"CapAdd", "CapDrop", "MaskedPaths", "ReadonlyPaths", "SecurityOpt"}
_TOP = ("User", "Entrypoint", "WorkingDir", "Hostname", "Tty", "OpenStdin")


def differences(asked: Mapping[str, Any], inspected: Mapping[str, Any]) -> tuple[str, ...]:
    """Sentences, each naming a field whose value is another one; empty when all is as asked."""
    try:
        return tuple(_differences(asked, inspected))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        return (f"the engine shows the container in another shape ({type(error).__name__}: {str(error)[:80]})",)


class LimitsIgnored(PolicyMismatch):
    """The engine made the container without the limits of memory, processes or CPU that were asked for; no code was delivered."""

    code = "limits_ignored"


def refusal(found: tuple[str, ...]) -> PolicyMismatch:
    """The error for a container with these differences; lost limits have their own."""
    told = "; ".join(found[:5])
    if any(one.startswith(_LIMITS) for one in found):
        limits = "; ".join(one for one in found if one.startswith(_LIMITS))
        return LimitsIgnored(
            f"the engine keeps no limits for containers, as rootless engines on cgroup v1 do ({limits}).",
            fix="No code was delivered. Run the engine as root, or rootless on a machine with cgroup v2.",
        )
    return PolicyMismatch(
        f"the engine made another container than the policy says: {told}.",
        fix="No code was delivered. Run `cloche doctor`; docs/reference/engines.md says which engines hold what.",
    )


def _differences(asked: Mapping[str, Any], inspected: Mapping[str, Any]) -> Iterator[str]:
    config, host = inspected.get("Config") or {}, inspected.get("HostConfig") or {}
    if inspected.get("Image") != asked["Image"]:
        yield _told("Image", asked["Image"], inspected.get("Image"))
    for name in _TOP:
        if not _same(asked[name], config.get(name)):
            yield _told(name, asked[name], config.get(name))
    if config.get("Cmd"):
        yield _told("Cmd", [], config["Cmd"])
    yield from _environment(asked["Env"], config.get("Env") or [])
    labels = config.get("Labels") or {}
    for name, value in asked["Labels"].items():
        if labels.get(name) != value:
            yield _told(f"label {name}", value, labels.get(name))
    for name in ("Volumes", "ExposedPorts", "Healthcheck"):
        if config.get(name):
            yield _told(name, None, config[name])
    yield from _host(asked["HostConfig"], host)
    yield from _resolved_mounts(asked["HostConfig"], inspected.get("Mounts") or [])


def _host(asked: Mapping[str, Any], host: Mapping[str, Any]) -> Iterator[str]:
    for name, value in asked.items():
        have = host.get(name)
        same = _sorted(value) == _sorted(have) if name in _IN_ANY_ORDER else _same(value, have)
        if not same:
            yield _told(f"HostConfig.{name}", value, have)
    for name, have in host.items():
        if name not in asked and have and have not in _OWN_DEFAULTS.get(name, ()):
            yield _told(f"HostConfig.{name}", None, have)


def _environment(asked: list[str], have: list[str]) -> Iterator[str]:
    for name in sorted(set(asked) ^ set(have)):
        yield f"Env: {name.partition('=')[0]} differs"


def _resolved_mounts(asked: Mapping[str, Any], resolved: list[Mapping[str, Any]]) -> Iterator[str]:
    wanted = {mount["Target"]: (mount["Source"], not mount["ReadOnly"]) for mount in asked["Mounts"]}
    have = {
        mount.get("Destination"): (mount.get("Source"), mount.get("RW"))
        for mount in resolved
        if mount.get("Destination") not in asked["Tmpfs"]
    }
    for target in sorted(set(wanted) | set(have), key=str):
        if wanted.get(target) != have.get(target):
            yield _told(f"mount {target}", wanted.get(target), have.get(target))


def _same(asked: Any, have: Any) -> bool:
    if isinstance(asked, list) and isinstance(have, list):
        asked, have = [_without_empty(item) for item in asked], [_without_empty(item) for item in have]
    return bool(asked == have) or (not asked and not have and asked is not None)


def _without_empty(item: Any) -> Any:
    """Inside lists of objects an engine leaves out what is false or empty."""
    return {key: value for key, value in item.items() if value} if isinstance(item, dict) else item


def _sorted(value: Any) -> list[str]:
    return sorted(str(item) for item in value or [])


def _told(name: str, asked: Any, have: Any) -> str:
    return f"{name}: asked for {str(asked)[:80]}, got {str(have)[:80]}"
