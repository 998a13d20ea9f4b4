"""The attempts of the probe as their files describe them: read here as text, run only inside containers.

A file of `sandbox_images/probes`, or of a folder in it for those that need a whole cell, is one attempt. Its docstring says what
it tries, GROUP what it attacks, EXPECT what must stop it and WHY that matters. EXPECT is checked: the errno, the name of the
exception or the supervisor's word (`crashed`, `timeout`); "A or B" where either is right; per runtime where they differ, and a
runtime that is not named there is one that claims nothing, so that the attempt is not made on it.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from engine.errors import UsageError
from engine.files import sha256_hex

GROUPS = (
    "network",
    "environment",
    "files",
    "supervisor",
    "kernel",
    "resources",
    "lifetime",
    "exchange",
    "gate",
)
"""In the order of every table."""

FOLDER = "sandbox_images.probes"
FOLDERS = {"attempt": FOLDER, "program": f"{FOLDER}.programs", "package": f"{FOLDER}.packages"}
"""Where the attempts of each kind lie."""
RUNTIMES = ("runc", "runsc")


@dataclass(frozen=True)
class Attempt:
    """One attempt. `kind` says how it is made.

    `attempt`: a function, called in the cell and in the unprotected container. `program`: a program with a cell of its own,
    which must end with a named cause. `package`: a package, which the gate must refuse.
    """

    name: str
    group: str
    kind: str
    tries: str
    why: str
    expects: Mapping[str, str]
    source: bytes

    def applies(self, runtime: str) -> bool:
        """Whether anything is claimed under this runtime."""
        return runtime in self.expects

    def expected(self, runtime: str, cause: str) -> bool:
        """Whether `cause` is what must stop it. Several causes ("A, B") must all be named."""
        return set(cause.split(", ")) <= set(self.expects[runtime].split(" or "))


@cache
def attempts() -> tuple[Attempt, ...]:
    """Every attempt of this version, by group and name."""
    found = [
        described(item.name.removesuffix(".py"), item.read_bytes(), kind=kind)
        for kind, folder in FOLDERS.items()
        for item in resources.files(folder).iterdir()
        if item.name.endswith(".py") and item.name[0] != "_"
    ]
    return tuple(sorted(found, key=lambda attempt: order(attempt.group, attempt.name)))


def shared() -> dict[str, bytes]:
    """Files that attempts import, by name."""
    names = ("_kernel.py",)
    return {name: resources.files(FOLDER).joinpath(name).read_bytes() for name in names}


def described(name: str, source: bytes, *, kind: str = "attempt") -> Attempt:
    """What a file says of itself.

    Raises:
        KeyError, ValueError: it does not say enough, or names a group or runtime that does not exist.
    """
    tree = ast.parse(source)
    said = {
        target.id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id in ("GROUP", "EXPECT", "WHY")
    }
    expect = said["EXPECT"]
    expects = dict.fromkeys(RUNTIMES, expect) if isinstance(expect, str) else _with_our_list(dict(expect))
    if said["GROUP"] not in GROUPS or not set(expects) <= set(RUNTIMES):
        raise ValueError(f"{name}: {said['GROUP']}, {sorted(expects)}")
    tries = ast.get_docstring(tree) or ""
    return Attempt(name, said["GROUP"], kind, tries, said["WHY"], expects, source)


def order(group: str, name: str) -> tuple[int, str]:
    """Where a row stands."""
    return GROUPS.index(group), name


def select(*, only: Iterable[str] = (), groups: Iterable[str] = ()) -> tuple[Attempt, ...]:
    """The attempts named in `only` and those of `groups`; all of them when neither names any.

    Raises:
        UsageError: there is no such attempt or group.
    """
    names, of = tuple(only), tuple(groups)
    _check(names, [attempt.name for attempt in attempts()], "attempt", "`cloche sandbox probe --help`")
    _check(of, list(GROUPS), "group", f"Groups: {', '.join(GROUPS)}.")
    if not names and not of:
        return attempts()
    return tuple(attempt for attempt in attempts() if attempt.name in names or attempt.group in of)


def _check(asked: tuple[str, ...], known: list[str], what: str, fix: str) -> None:
    for name in asked:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3)
            raise UsageError(
                f"the probe has no {what} {name!r}.", fix=f"Did you mean {' or '.join(near)}?" if near else fix
            )


def digest() -> str:
    """SHA-256 over all attempts and what they import."""
    files = {**{f"{attempt.name}.py": attempt.source for attempt in attempts()}, **shared()}
    return sha256_hex("".join(f"{name} {sha256_hex(files[name])}\n" for name in sorted(files)).encode())


def _with_our_list(expects: dict[str, str]) -> dict[str, str]:
    """Registered with `--oci-seccomp`, gVisor has our list answer before it answers by itself: EPERM, where runc gives that."""
    ours, gvisor = expects.get("runc", "").split(" or "), expects.get("runsc", "")
    if gvisor and "EPERM" in ours and "EPERM" not in gvisor.split(" or "):
        expects["runsc"] = f"{gvisor} or EPERM"
    return expects
