"""What `doctor`, `image …`, `sandbox …` and `cells …` print with `--json`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from cli.schema_base import Object


class Finding(Object):
    """One thing that was tried."""

    name: str = Field(description="What was tried.")
    state: Literal["ok", "missing", "absent"] = Field(description="`missing` is needed, `absent` is optional.")
    detail: str = Field(description="What was found.")
    fix: str = Field(description="What to do; empty when nothing.")


class Doctor(Object):
    """What is there and what is missing."""

    ok: bool = Field(description="Nothing needed is missing.")
    findings: list[Finding] = Field(description="In the order in which they build on each other.")


class ExportedImage(Object):
    """An image of cells."""

    ok: Literal[True] = Field(description="Always true.")
    image_id: str = Field(description="`sha256:` and 64 hex digits.")
    diff_ids: list[str] = Field(description="Digests of its layers.")
    locked: bool = Field(description="Made of exactly the locked versions.")
    packages: dict[str, str] = Field(description="Debian package to version.")
    guest: str = Field(description="SHA-256 of Cloche's own files inside.")
    archive: str = Field(description="Path of the archive.")


class Image(ExportedImage):
    """The current image."""

    loaded: bool = Field(description="The engine has it.")


class LockChange(Object):
    """One package whose locked version changed."""

    name: str = Field(description="Debian package.")
    old: str = Field(description="Empty for a new one.")
    new: str = Field(description="Empty for one that is gone.")


class ImageLock(Object):
    """The locked Debian packages."""

    ok: Literal[True] = Field(description="Always true.")
    packages: dict[str, str] = Field(description="Package to version.")
    changed: list[LockChange] = Field(description="With `--update`: what changed.")


class ProbeAttempt(Object):
    """One attempt to get out."""

    group: str = Field(description="What it attacks.")
    name: str = Field(description="Its name.")
    tries: str = Field(description="What it tries.")
    expect: str = Field(
        description="What must stop it in the cell: an errno, an exception or a cause; `or` between several."
    )
    why: str = Field(description="Why that matters.")
    cell: str = Field(description="What stopped it in the cell, or how it got through.")
    control: str = Field(description="The same in an unprotected container.")
    verdict: Literal["blocked", "through", "unexpected", "unproven"] = Field(
        description="`unexpected`: stopped by something else than `expect`. `unproven`: the control was stopped as well, so that "
        "nothing follows."
    )


class Probe(Object):
    """What became of all attempts."""

    ok: bool = Field(description="Every attempt was blocked, and every control got through.")
    runtime: str = Field(description="The OCI runtime.")
    image_id: str = Field(description="The image of the cell.")
    attempts: list[ProbeAttempt] = Field(description="By group and name.")


class ListedCell(Object):
    """One cell of this home."""

    cell_id: str = Field(description="The cell.")
    container: str = Field(description="Id of its container; empty when there is only a directory.")
    kind: str = Field(description="`run`, `gate`, `probe` or `trial`.")
    state: str = Field(description="As the engine says; `no container …`, or `made elsewhere, at …` by another engine.")
    owned: bool = Field(description="Its owner is alive.")
    expired: bool = Field(description="Its time is over.")
    idle: bool = Field(description="It waits, started and without an owner, for a job.")


class Pool(Object):
    """What became of jobs and of the cells that wait for them, counted over the life of the home."""

    warm: int = Field(description="Jobs that got a cell that waited.")
    cold: int = Field(description="Jobs for which a cell was started.")
    dead: int = Field(description="Cells found dead, or not as they were left, by a job that took them.")
    stale: int = Field(description="Cells ended because image, policy, runtime or engine had changed.")
    made: int = Field(description="Cells that were started to wait.")
    failed: int = Field(description="Failures to start one to wait, or to remove a used one.")


class Cells(Object):
    """The cells there are."""

    ok: Literal[True] = Field(description="Always true.")
    cells: list[ListedCell] = Field(description="By id.")
    pool: Pool = Field(description="Counts since the home was made.")


class ReapedCell(Object):
    """One cell that was ended."""

    cell_id: str = Field(description="The cell.")
    container: str = Field(description="Id of its container, if it had one.")
    why: Literal["owner_dead", "expired", "idle", "leftover_directory"] = Field(description="Why it was ended.")
    problem: str = Field(description="Empty when it is gone.")


class Reaping(Object):
    """What was ended."""

    ok: bool = Field(description="All of them are gone.")
    reaped: list[ReapedCell] = Field(description="By id.")
