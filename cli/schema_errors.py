"""What any verb prints with `--json` when it fails."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from cli.schema_base import Object
from cli.schema_reports import Diagnostic, GateReport


class ErrorBody(Object):
    """A failure, as in docs/reference/exit-codes.md."""

    code: str = Field(description="Stable name.")
    message: str = Field(description="What happened, to which thing.")
    fix: str = Field(description="What to do next; may be empty.")
    exit: int = Field(description="Exit code of the process.")


class ErrorObject(Object):
    """Any verb that could not do its work. A run that ended badly is not one: it prints its Run."""

    ok: Literal[False] = Field(description="Always false.")
    error: ErrorBody = Field(description="What failed.")
    report: GateReport | None = Field(None, description="Only for tests that did not pass.")
    diagnostics: list[Diagnostic] | None = Field(
        None, description="Only for `workflows test|publish` of an invalid package."
    )
