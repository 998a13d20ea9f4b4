"""What a verification found: frozen values, the content of `--json`. Version 1."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from engine.run.status import Status


class What(StrEnum):
    """Kinds of difference between a run's record and what its program does."""

    ARGUMENT = "argument"
    RESULT = "result"
    ORDER = "order"
    MISSING = "missing"
    SURPLUS = "surplus"
    ENDING = "ending"
    PROTOCOL = "protocol"
    SNAPSHOT = "snapshot"
    IMAGE = "image"


class Difference(BaseModel):
    """One difference, with its place. Arguments and results are JSON text, clipped."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    what: What = Field(
        description="`argument`: a call has others than its record; `result`: the program returned something else; `order`: a call "
        "comes earlier or later than recorded; `missing`: a call without a record; `surplus`: a completed record that was never "
        "asked for; `ending`: the program ended otherwise; `protocol`: it broke the protocol of its cell; `snapshot`, `image`: "
        "not the bytes, or not the image, of the record."
    )
    message: str = Field(description="The same as a sentence.")
    seq: int = Field(0, description="Number of the call in the record, as `runs show` prints it; 0 for none.")
    scope: str = Field("", description="Where the call stands.")
    fn: str = Field("", description="Its function.")
    n: int = Field(0, description="The how-many-eth call of it in this scope.")
    site: str = Field("", description="File and line of the call in the package as it is now.")
    recorded: str = Field("", description="What the record says.")
    asked: str = Field("", description="What the program does now.")
    where: str = Field("", description="The first place in the arguments that differs.")
    cause: str = Field("", description="What usually causes that.")


class Verdict(BaseModel):
    """Whether a program, run against the record alone, does what the record says."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = Field(1, description="Format of this object.")
    run_id: str = Field(description="The run.")
    workflow_id: str = Field(description="The package.")
    revision: str = Field(description="The revision that was held against the record.")
    recorded_revision: str = Field(description="The revision that made the record.")
    status: Status = Field(description="How the run stands.")
    whole: bool = Field(
        description="The record tells how the program ended; otherwise the comparison goes up to its last completed call."
    )
    calls: int = Field(description="Calls in the record.")
    asked: int = Field(description="Of these, asked for again, with the same arguments.")
    differences: list[Difference] = Field(
        description="Empty when nothing differs. After one in a call, the program was stopped."
    )
    notes: list[str] = Field(description="What is worth knowing and counts as no difference.")

    @property
    def holds(self) -> bool:
        """True when nothing differs."""
        return not self.differences
