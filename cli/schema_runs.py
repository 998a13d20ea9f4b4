"""What `workflows run|verify-runs` and `runs …` print with `--json`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from cli.schema_base import Object
from engine.run.verdict import Verdict
from engine.run.view import RunView


class Counts(Object):
    """How many calls stand how."""

    calls: int = Field(description="In the tree.")
    completed: int = Field(description="Gave a value.")
    failed: int = Field(description="Raised.")
    unknown: int = Field(description="Started without a known outcome.")
    replayed: int = Field(description="Taken from an earlier record by the newest generation.")
    executed: int = Field(description="Executed by the newest generation.")


class Run(RunView):
    """A run as it stands."""

    ok: bool = Field(description="The run completed.")
    counts: Counts = Field(description="How many calls stand how.")
    value: Any = Field(
        None,
        description="The whole result, encoded as docs/reference/codec.md says. Absent unless completed; "
        "of `runs show` only with `--result`.",
    )


class RunRow(Object):
    """A run in a list; fields as in Run."""

    run_id: str = Field(description="The run.")
    session: str = Field(description="The session it belongs to.")
    workflow_id: str = Field(description="The package.")
    revision: str = Field(description="Commit id, 40 hex digits.")
    status: str = Field(description="How it stands.")
    reason: str = Field(description="Why it is not completed.")
    created_at: float = Field(description="Seconds since 1970.")
    ended_at: float | None = Field(description="Null while it has not ended.")
    executions: int = Field(description="Executions that count towards the cap.")
    cap: int = Field(description="How many of them it may make.")
    generations: int = Field(description="Attempts.")
    counts: Counts = Field(description="How many calls stand how.")


class RunProblem(Object):
    """A run that cannot be read."""

    code: str = Field(description="As in the error object.")
    message: str = Field(description="What is wrong, with which run.")


class Runs(Object):
    """Runs of this home."""

    ok: Literal[True] = Field(description="Always true.")
    runs: list[RunRow] = Field(description="Newest first.")
    problems: list[RunProblem] = Field(description="One damaged run hides no other.")


class RunLogs(Object):
    """What the program wrote."""

    ok: Literal[True] = Field(description="Always true.")
    run_id: str = Field(description="The run.")
    stream: Literal["stdout", "stderr"] = Field(description="Which stream.")
    text: str = Field(description="All generations; bytes that are no UTF-8 as `\\xNN`, cuts said in place.")


class Verification(Verdict):
    """Whether a program, run against the record alone, does what the record says."""

    ok: bool = Field(description="Nothing differs.")


class UnverifiedRun(Object):
    """A run that could not be compared."""

    run_id: str = Field(description="Empty when not even that can be read.")
    code: str = Field(description="As in the error object.")
    message: str = Field(description="What is wrong.")


class VerifiedRuns(Object):
    """Which recorded runs of a package one revision would replay."""

    ok: bool = Field(description="All of them, and each could be compared.")
    workflow_id: str = Field(description="The package.")
    runs: list[Verification] = Field(description="Newest first.")
    problems: list[UnverifiedRun] = Field(description="Runs that say nothing; one hides no other.")
