"""The objects that `--json` prints, one model per verb, as a promise: no field appears, vanishes or changes its type unseen.

`SCHEMAS` maps each verb to its model; `ErrorObject` is what any verb prints when it fails. The verbs print what the layers below
give them; tests hold that against these models, and docs/reference/json.md is rendered from them. Nothing here runs a verb.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from cli.schema_errors import ErrorObject
from cli.schema_packages import Published, Tested, Validation, WorkflowDiff, WorkflowLog, WorkflowRevision, Workflows
from cli.schema_runs import Run, RunLogs, Runs, Verification, VerifiedRuns
from cli.schema_sandbox import Cells, Doctor, ExportedImage, Image, ImageLock, Probe, Reaping

SCHEMAS: dict[str, type[BaseModel]] = {
    "doctor": Doctor,
    "workflows validate": Validation,
    "workflows test": Tested,
    "workflows publish": Published,
    "workflows list": Workflows,
    "workflows show": WorkflowRevision,
    "workflows log": WorkflowLog,
    "workflows diff": WorkflowDiff,
    "workflows verify-runs": VerifiedRuns,
    "workflows run": Run,
    "runs list": Runs,
    "runs show": Run,
    "runs watch": Run,
    "runs logs": RunLogs,
    "runs resume": Run,
    "runs cancel": Run,
    "runs decide": Run,
    "runs answer": Run,
    "runs fork": Run,
    "runs verify": Verification,
    "image build": Image,
    "image show": Image,
    "image export": ExportedImage,
    "image import": Image,
    "image lock": ImageLock,
    "sandbox probe": Probe,
    "cells list": Cells,
    "cells reap": Reaping,
}
"""Verb → what it prints with `--json` when it does not fail."""


def check(verb: str, printed: Any) -> BaseModel:
    """What a verb printed, held against its model, or against `ErrorObject` when it says `error`.

    Raises:
        pydantic.ValidationError: it is not what is documented.
    """
    failed = isinstance(printed, dict) and isinstance(printed.get("error"), dict) and "code" in printed["error"]
    return (ErrorObject if failed else SCHEMAS[verb]).model_validate(printed)
