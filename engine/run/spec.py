"""run.json: what a run is, written once when it is created. Version 1."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from cloche_guest import codec
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engine.run.journal import JournalDamaged
from engine.sandbox.jobs import RunJob


class ForkedFrom(BaseModel):
    """Where the first records of a run were taken from: those before the call `seq` of `run`, and that run's `began_at`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: str = Field(description="The run that it was forked from.")
    seq: int = Field(description="The first call of it that was not taken over.")
    at: float = Field(description="What its program's clock shows first, seconds since 1970.")


class RunSpec(BaseModel):
    """The fixed part of a run. `task` and nothing else is in codec form; digests, revisions and the seed are hex.

    `permissions` is package ∩ session at creation. `workspace` is an absolute directory and the only absolute path in here:
    a resume uses it, whatever the current directory is. `active_s` bounds the generations together, `total_s` counts from
    `created_at` (seconds since 1970, UTC).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    run_id: str
    kind: Literal["package"] = "package"
    session: str = "default"
    workflow_id: str
    revision: str
    tree_id: str
    pins: dict[str, str] = Field(default_factory=dict)
    snapshot_digest: str
    task: Any
    seed: str
    permissions: tuple[str, ...] = ()
    workspace: str
    model: str = ""
    cap: int = Field(40, ge=1)
    active_s: float = Field(3600.0, gt=0)
    total_s: float = Field(86400.0, gt=0)
    created_at: float
    forked_from: ForkedFrom | None = None

    @property
    def began_at(self) -> float:
        """What the program's clock shows before its first answer: when the run, or the one that it was forked from, was created."""
        return self.forked_from.at if self.forked_from else self.created_at

    def to_json(self) -> bytes:
        """The bytes of run.json; a run that is no fork says nothing about it."""
        fields = self.model_dump(mode="json")
        if self.forked_from is None:
            del fields["forked_from"]
        return codec.text(fields).encode() + b"\n"


def parse_spec(raw: bytes, *, path: Path) -> RunSpec:
    """The spec of a run.json's bytes.

    Raises:
        JournalDamaged: no JSON, another version, or fields that do not fit.
    """
    try:
        return RunSpec.model_validate_json(raw)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise JournalDamaged(path, 0, f"{where}: {first['msg']}") from error


def job_of(spec: RunSpec, *, deadline_s: float) -> RunJob:
    """What a cell is asked to do for a run."""
    return RunJob(spec.workflow_id, spec.task, spec.seed, deadline_s, spec.began_at)
