"""run.json: what a run is, written once when it is created. Version 1."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from cloche_guest import codec
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engine.run.journal import JournalDamaged


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

    def to_json(self) -> bytes:
        """The bytes of run.json."""
        return codec.text(self.model_dump(mode="json")).encode() + b"\n"


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
