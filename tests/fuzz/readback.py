"""Target: what an engine, or a cell, says of itself, compared with the policy: seccomp list, limits, mounts, identities."""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

from engine.sandbox import attest, readback
from engine.sandbox.policy import CellPolicy
from engine.settings import Settings
from tests.fuzz.mutation import dumped, mutated_json
from tests.fuzz.target import Target, expect

HOME = Path("/h")
UID = 60800
_GIVEN = (
    "NetworkMode",
    "ReadonlyRootfs",
    "PidsLimit",
    "Memory",
    "MemorySwap",
    "NanoCpus",
    "Privileged",
    "Runtime",
    "IpcMode",
)
"""What must be exactly as asked, whatever an engine calls equal."""


@cache
def policy() -> CellPolicy:
    return CellPolicy.from_settings(Settings(home=HOME), "runc", "run")


@cache
def asked() -> dict[str, Any]:
    return policy().container(
        image_id="sha256:1", inbox=Path("/h/in"), outbox=Path("/h/out"), labels={"io.cloche.home": "h"}
    )


def inspected() -> dict[str, Any]:
    """What an engine shows of a container that it made as asked (Docker 20.10)."""
    config = {key: value for key, value in asked().items() if key != "HostConfig"}
    host = {**asked()["HostConfig"], "ConsoleSize": [0, 0], "Binds": None, "Isolation": ""}
    mounts = [
        {"Destination": mount["Target"], "Source": mount["Source"], "RW": not mount["ReadOnly"]}
        for mount in asked()["HostConfig"]["Mounts"]
    ]
    return copy.deepcopy(
        {"Image": asked()["Image"], "Config": {**config, "Cmd": None}, "HostConfig": host, "Mounts": mounts}
    )


def check(data: bytes) -> None:
    """Anything at all is compared without an exception, and without a difference only what has every protection."""
    try:
        shown = json.loads(data)
    except (ValueError, RecursionError):
        return
    if not isinstance(shown, dict):
        return
    told = attest.differences(shown, policy(), uid=UID)
    expect(all(isinstance(one, str) and one for one in told), "a difference without words")
    expect(bool(told), "an answer of an engine passes as an attestation")
    found = readback.differences(asked(), shown)
    expect(all(isinstance(one, str) and one for one in found), "a difference without words")
    if not found:
        _has_every_protection(shown)


def _has_every_protection(shown: dict[str, Any]) -> None:
    host = shown["HostConfig"]
    for name in _GIVEN:
        wanted, have = asked()["HostConfig"].get(name), host.get(name)
        expect((wanted or None) == (have or None) and type(wanted or None) is type(have or None), f"{name} is {have!r}")
    for name in ("CapAdd", "CapDrop", "SecurityOpt", "MaskedPaths", "ReadonlyPaths"):
        expect(sorted(host[name]) == sorted(asked()["HostConfig"][name]), f"{name} differs")
    expect(not host.get("Binds") and not host.get("Devices"), "something of the host's is given")
    wanted = {mount["Target"]: not mount["ReadOnly"] for mount in asked()["HostConfig"]["Mounts"]}
    expect({mount["Destination"]: mount["RW"] for mount in shown["Mounts"]} == wanted, "mounts")
    expect(shown["Config"]["User"] == asked()["User"], "another user")


def seeds() -> list[bytes]:
    """The answer that is as it must be."""
    return [dumped(inspected())]


TARGET = Target("readback", seeds, check, mutated_json)
