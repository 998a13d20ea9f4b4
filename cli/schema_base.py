"""The base of every object that is printed with `--json`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Object(BaseModel):
    """Base: every field is listed and described; none is added silently."""

    model_config = ConfigDict(frozen=True, extra="forbid")
