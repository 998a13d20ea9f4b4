"""Package directories for rule tests: small overlays over one sound base package, as real directories on disk.

    tests/contract/packages/_base/                  a package that breaks no rule
    tests/contract/packages/<rule>/bad_<name>/      files laid over the base; breaks this rule and no other
    tests/contract/packages/<rule>/fine_<name>/     at the edge of the rule, and fine

`_case.toml` in an overlay says what a checkout cannot hold: `remove` (paths), `workflow_id` (the package renamed),
`authored`, `warning` (the rule only warns), and `[[make]]` entries: `path` (or `path_hex`) with `kind` symlink, fifo,
socket or folder, or a file of `before`, `repeat` times `text` and `after`, of `hex`, or of a number of `bytes`; `count`
repeats a path that holds `%d`.
"""

from __future__ import annotations

import os
import shutil
import socket
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PACKAGES = Path(__file__).parents[1] / "contract" / "packages"
BASE = PACKAGES / "_base"
BASE_ID = "word_count"


@dataclass(frozen=True)
class PackageCase:
    """One overlay."""

    rule: str
    directory: Path
    options: dict[str, Any] = field(hash=False)

    @property
    def id(self) -> str:
        return f"{self.rule}/{self.directory.name}"

    @property
    def is_bad(self) -> bool:
        return self.directory.name.startswith("bad_")

    @property
    def authored(self) -> bool:
        return bool(self.options.get("authored"))

    @property
    def only_warns(self) -> bool:
        return bool(self.options.get("warning"))

    def build(self, parent: Path) -> Path:
        """The whole package as a directory under `parent`, named by its workflow id."""
        workflow_id: str = self.options.get("workflow_id", BASE_ID)
        package = parent / workflow_id
        shutil.copytree(BASE, package)
        shutil.copytree(self.directory, package, dirs_exist_ok=True, ignore=shutil.ignore_patterns("_case.toml"))
        if workflow_id != BASE_ID:
            for file in package.rglob("*.*"):
                file.write_text(file.read_text("utf-8").replace(BASE_ID, workflow_id), "utf-8")
        for path in self.options.get("remove", ()):
            (package / path).unlink()
            if not any((package / path).parent.iterdir()):
                (package / path).parent.rmdir()
        for made in self.options.get("make", ()):
            _make(package, made)
        return package


def package_cases() -> list[PackageCase]:
    """Every overlay on disk."""
    return list(_cases())


def _cases() -> Iterator[PackageCase]:
    for rule in sorted(PACKAGES.iterdir()):
        for directory in sorted(rule.iterdir()) if rule != BASE else ():
            options = directory / "_case.toml"
            yield PackageCase(
                rule.name, directory, tomllib.loads(options.read_text("utf-8")) if options.exists() else {}
            )


def _make(package: Path, made: dict[str, Any]) -> None:
    name = os.fsdecode(bytes.fromhex(made["path_hex"])) if "path_hex" in made else made["path"]
    for number in range(made.get("count", 1)):
        path = package / (name % number if "count" in made else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        match made.get("kind", "file"):
            case "symlink":
                path.symlink_to(made["target"])
            case "fifo":
                os.mkfifo(path)
            case "socket":
                _socket(path)
            case "folder":
                path.mkdir()
            case _:
                path.write_bytes(_bytes(made))


def _bytes(made: dict[str, Any]) -> bytes:
    if "bytes" in made:
        return b"x" * int(made["bytes"])
    if "hex" in made:
        return bytes.fromhex(made["hex"])
    text: str = made.get("before", "") + made["text"] * made.get("repeat", 1) + made.get("after", "")
    return text.encode()


def _socket(path: Path) -> None:
    """A bound socket leaves its name behind. Bound through a short path: addresses have at most 107 bytes."""
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(f"/proc/self/fd/{descriptor}/{path.name}")
    finally:
        os.close(descriptor)


def files_of(package: Path) -> dict[str, bytes]:
    """The regular files of a directory as an author's reply would hold them."""
    return {
        str(file.relative_to(package)): file.read_bytes()
        for file in sorted(package.rglob("*"))
        if file.is_file() and not file.is_symlink()
    }
