"""`cloche runs fork`, `runs verify` and `workflows verify-runs`: records used for another run, or as a proof."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer

from cli import output
from cli.app import Json, application, awaited
from cli.runs import NamedRun, Progress, RunId, finish
from cli.verdict_text import told, verdict_row
from engine.errors import ClocheError
from engine.run.verdict import Verdict

Revision = Annotated[
    str, typer.Option("--revision", metavar="R", help="Another revision of the package (default: the run's own).")
]


def fork(
    run_id: NamedRun,
    call: Annotated[
        int,
        typer.Option("--from", metavar="CALL", help="The first call to execute, by its number in `runs show`."),
    ],
    revision: Revision = "",
    as_json: Json = False,
) -> int:
    """Execute a new run that begins with the records before a call of another one, which stays as it is."""
    with application(as_json=as_json) as app, Progress() as progress:
        forked = partial(app.fork, run_id, call, revision=revision, progress=progress, tell=output.confide)
        return finish(app, awaited(forked))


def verify(run_id: RunId = "", revision: Revision = "", as_json: Json = False) -> int:
    """Run a recorded program again without executing any call, and compare; exits with 1 when something differs."""
    with application(as_json=as_json) as app:
        chosen = run_id or app.runs.newest().run_id
        verdict = awaited(partial(app.verify, chosen, revision=revision))
        if output.mode.json:
            output.data(_object(verdict))
        else:
            output.line("\n".join(told(verdict)))
        return 0 if verdict.holds else 1


def verify_runs(
    workflow_id: Annotated[str, typer.Argument(metavar="ID", help="A package.")],
    revision: Annotated[
        str, typer.Option("--revision", metavar="R", help="The revision to try (default: the active one).")
    ] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most this many runs, newest first.")] = 100,
    as_json: Json = False,
) -> int:
    """Say which recorded runs of a package a revision would replay; exits with 1 when one breaks or cannot be compared."""
    with application(as_json=as_json) as app:
        verdicts, problems = awaited(partial(app.verify_runs, workflow_id, revision=revision, limit=limit))
        holds = all(verdict.holds for verdict in verdicts) and not problems
        if output.mode.json:
            told_problems = [_problem(run_id, error) for run_id, error in problems]
            runs = [_object(verdict) for verdict in verdicts]
            output.data({"ok": holds, "workflow_id": workflow_id, "runs": runs, "problems": told_problems})
        else:
            rows = [verdict_row(verdict) for verdict in verdicts]
            rows += [[run_id or "?", "", "cannot be read", "", error.message, ""] for run_id, error in problems]
            output.table(["run", "status", "verdict", "call", "recorded", "asked"], rows)
            _summarise(verdicts, problems)
        return 0 if holds else 1


def _summarise(verdicts: list[Verdict], problems: list[tuple[str, ClocheError]]) -> None:
    breaks = sum(not verdict.holds for verdict in verdicts)
    revision = f" with revision {verdicts[0].revision[:12]}" if verdicts else ""
    output.note(f"{len(verdicts) - breaks} replay, {breaks} break, {len(problems)} cannot be read{revision}.")


def _object(verdict: Verdict) -> dict[str, Any]:
    return {"ok": verdict.holds, **verdict.model_dump(mode="json")}


def _problem(run_id: str, error: ClocheError) -> dict[str, Any]:
    return {"run_id": run_id, "code": error.code, "message": error.message}
