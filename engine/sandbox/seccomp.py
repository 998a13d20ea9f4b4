"""The seccomp profile of cells, made from `system_calls.toml`, which says for each call why it is there.

An allow-list: what is not named gets EPERM, or ENOSYS where its number lies above every number that the profile knows (runc
answers so, for a C library that then tries an older call). `clone3` is named for its errno alone: its flags lie in memory,
where a filter cannot see them, and with ENOSYS the C library falls back to `clone`. Owns the profile; what it is worth under
each runtime is told by `engine.sandbox.protections`.
"""

from __future__ import annotations

import errno
import json
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

SOURCE = Path(__file__).with_name("system_calls.toml")
ARCHITECTURE = "SCMP_ARCH_X86_64"
"""The only one: 32-bit (`int 0x80`) and x32 calls end their process (SIGSYS)."""

CLONE3, CLONE3_NUMBER = "clone3", 435
RUNSC_NAMES = (CLONE3, "pselect")


@dataclass(frozen=True)
class Condition:
    """Let through when the argument, masked, has the value."""

    argument: int
    mask: int
    value: int

    def to_json(self) -> dict[str, Any]:
        """As libseccomp's JSON has it: there, `value` is the mask."""
        return {"index": self.argument, "value": self.mask, "valueTwo": self.value, "op": "SCMP_CMP_MASKED_EQ"}


@dataclass(frozen=True)
class SystemCall:
    """One call that is let through. `rules`: any one of them is enough, all conditions of it must hold; none: always."""

    name: str
    number: int
    by: str
    without: str
    could: str
    only: str = ""
    rules: tuple[tuple[Condition, ...], ...] = ()


@dataclass(frozen=True)
class Group:
    """Calls that serve one purpose."""

    title: str
    calls: tuple[SystemCall, ...]


@cache
def groups() -> tuple[Group, ...]:
    """Everything that is let through, in the order of the file."""
    told = tomllib.loads(SOURCE.read_text(encoding="utf-8"))
    return tuple(Group(group["title"], tuple(map(_call, group["call"]))) for group in told["group"])


def system_calls() -> tuple[SystemCall, ...]:
    """The calls of all groups."""
    return tuple(call for group in groups() for call in group.calls)


@cache
def text(runtime: Literal["runc", "runsc"]) -> str:
    """The profile as JSON text.

    Under runsc it counts with `--oci-seccomp` only, where the errno of a rule is not honoured (clone3 is let through) and where
    pselect6 goes by another name.
    """
    plain = [call.name for call in system_calls() if not call.rules]
    rules: list[dict[str, Any]] = [_allow(plain + (list(RUNSC_NAMES) if runtime == "runsc" else []))]
    for call in system_calls():
        rules += [_allow([call.name], rule) for rule in call.rules]
    if runtime == "runc":
        rules.append({"names": [CLONE3], "action": "SCMP_ACT_ERRNO", "errnoRet": errno.ENOSYS})
    profile = {"defaultAction": "SCMP_ACT_ERRNO", "architectures": [ARCHITECTURE], "syscalls": rules}
    return json.dumps(profile, separators=(",", ":"))


def _call(told: dict[str, Any]) -> SystemCall:
    rules = tuple(tuple(Condition(*condition) for condition in rule) for rule in told.get("rules", []))
    return SystemCall(**{**told, "rules": rules})


def _allow(names: list[str], rule: tuple[Condition, ...] = ()) -> dict[str, Any]:
    made: dict[str, Any] = {"names": names, "action": "SCMP_ACT_ALLOW"}
    return {**made, "args": [condition.to_json() for condition in rule]} if rule else made
