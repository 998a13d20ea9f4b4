"""The seccomp profile of cells, made from `system_calls.toml`, which says for each call why it is there.

An allow-list: what is not named gets EPERM, or ENOSYS where its number lies above every number that the profile knows (runc
answers so, for a C library that then tries an older call). `clone3` is named for its errno alone: its flags lie in memory,
where a filter cannot see them, and with ENOSYS the C library falls back to `clone`. The calls that change identity are let
through for one uid, that of the cell's own worker, which is known when the cell is made. Owns the profile; what it is worth under
each runtime is told by `engine.sandbox.protections`.
"""

from __future__ import annotations

import errno
import json
import tomllib
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal

SOURCE = Path(__file__).with_name("system_calls.toml")
ARCHITECTURE = "SCMP_ARCH_X86_64"
"""The only one: 32-bit (`int 0x80`) and x32 calls end their process (SIGSYS)."""

CLONE3, CLONE3_NUMBER = "clone3", 435
RUNSC_NAMES = (CLONE3, "pselect")

_ID = 0xFFFFFFFF
"""The kernel takes the lower half of the argument for the uid."""


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
    """One call that is let through. `rules`: any one of them is enough, all conditions of it must hold; none: always.

    `own_uid`: its three arguments must be the uid of the cell's worker, once that is known.
    """

    name: str
    number: int
    by: str
    without: str
    could: str
    only: str = ""
    rules: tuple[tuple[Condition, ...], ...] = ()
    own_uid: bool = False


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


@lru_cache(maxsize=4)
def for_worker(profile: str, uid: int) -> str:
    """The profile of one cell: who runs in it may become this uid and group, and nobody else's.

    Whoever took the supervisor over could otherwise become a neighbour's worker, whose processes count together with its own.
    """
    if profile == "unconfined":
        return profile
    told, own = json.loads(profile), {call.name for call in system_calls() if call.own_uid}
    rules: list[dict[str, Any]] = []
    for rule in told["syscalls"]:
        if rule["action"] != "SCMP_ACT_ALLOW" or rule.get("args") or not own & set(rule["names"]):
            rules.append(rule)
            continue
        rules.append({**rule, "names": [name for name in rule["names"] if name not in own]})
        only = tuple(Condition(argument, _ID, uid) for argument in range(3))
        rules += [_allow([name], only) for name in rule["names"] if name in own]
    return json.dumps({**told, "syscalls": rules}, separators=(",", ":"))


def _call(told: dict[str, Any]) -> SystemCall:
    rules = tuple(tuple(Condition(*condition) for condition in rule) for rule in told.get("rules", []))
    return SystemCall(**{**told, "rules": rules})


def _allow(names: list[str], rule: tuple[Condition, ...] = ()) -> dict[str, Any]:
    made: dict[str, Any] = {"names": names, "action": "SCMP_ACT_ALLOW"}
    return {**made, "args": [condition.to_json() for condition in rule]} if rule else made
