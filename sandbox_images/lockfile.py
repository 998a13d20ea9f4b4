"""The lock file of the cell image: which Debian packages, in which version, with which bytes.

Owns the format (TOML, version 1), reading, writing and comparing. Refuses to know where packages come from: the
file names no index, so any Debian mirror that the machine's apt trusts will do.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from engine.errors import UsageError
from engine.files import storage, write_atomic

CELL_LOCK = Path(__file__).with_name("cell.lock.toml")
LOCK_LIMIT_BYTES = 1024 * 1024
HEADER = "# Debian packages of the cell image. Rewritten by `cloche image lock --update`; do not edit by hand.\n"

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9+.-]{1,99}$")]
Version = Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z.+:~-]{1,99}$")]
Architecture = Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{2,20}$")]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class LockDamaged(UsageError):
    """The lock file is missing, is not TOML, or does not have the documented shape."""

    code = "image_lock_damaged"


class LockedPackage(BaseModel):
    """One Debian package: name, full version, architecture (`all` or the machine's) and the SHA-256 of its file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    version: Version
    architecture: Architecture
    sha256: Digest

    @property
    def file_name(self) -> str:
        """The name that apt gives the file, e.g. `tzdata_2026f-0+deb12u1_all.deb`."""
        return f"{self.name}_{self.version.replace(':', '%3a')}_{self.architecture}.deb"


class Lock(BaseModel):
    """All packages of the image for one machine architecture, ordered by name, each name once."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    architecture: Architecture
    package: Annotated[tuple[LockedPackage, ...], Field(min_length=1, max_length=1000)]


@dataclass(frozen=True)
class Change:
    """A package whose version differs: `old` empty when it is new, `new` empty when it is gone."""

    name: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.name}: {self.old or '(none)'} → {self.new or '(none)'}"


def read_lock(path: Path = CELL_LOCK) -> Lock:
    """The lock in `path`.

    Raises:
        LockDamaged: missing, over 1 MiB, not TOML, of another version or shape, or a name occurs twice.
    """
    fix = "Restore the file from Cloche's sources."
    try:
        data = path.read_bytes()
        if len(data) > LOCK_LIMIT_BYTES:
            raise LockDamaged(f"the image lock {path} is larger than {LOCK_LIMIT_BYTES} bytes.", fix=fix)
        lock = Lock.model_validate(tomllib.loads(data.decode("utf-8")))
    except OSError as error:
        raise LockDamaged(f"cannot read the image lock {path}: {error.strerror}.", fix=fix) from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise LockDamaged(f"the image lock {path} is damaged at {where}: {first['msg']}.", fix=fix) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise LockDamaged(f"the image lock {path} is not TOML: {error}.", fix=fix) from error
    names = [package.name for package in lock.package]
    if len(names) != len(set(names)):
        raise LockDamaged(f"the image lock {path} names a package twice.", fix=fix)
    return lock


def render_lock(lock: Lock) -> bytes:
    """The bytes of the file: the same lock always gives the same bytes."""
    parts = [HEADER, f'version = {lock.version}\narchitecture = "{lock.architecture}"\n']
    for package in sorted(lock.package, key=lambda package: package.name):
        parts.append(
            f'\n[[package]]\nname = "{package.name}"\nversion = "{package.version}"\n'
            f'architecture = "{package.architecture}"\nsha256 = "{package.sha256}"\n'
        )
    return "".join(parts).encode()


def write_lock(path: Path, lock: Lock) -> None:
    """Replace the file in one step.

    Raises:
        StorageFull, EngineFailure: as `engine.files.write_atomic`; the old file stays.
    """
    with storage(path):
        write_atomic(path, render_lock(lock), mode=0o644)


def changes(old: dict[str, str], new: dict[str, str]) -> tuple[Change, ...]:
    """What differs between two maps of package name to version, ordered by name."""
    names = sorted(old.keys() | new.keys())
    found = (Change(name, old.get(name, ""), new.get(name, "")) for name in names)
    return tuple(change for change in found if change.old != change.new)


def versions(packages: tuple[LockedPackage, ...]) -> dict[str, str]:
    """Package name to version."""
    return {package.name: package.version for package in packages}
