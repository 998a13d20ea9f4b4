"""`cloche workflows`: packages, from a directory to a run."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from cli import output
from cli.app import Json, application, awaited
from cli.package_text import gate_line, show_diagnostics, show_refusal, show_report
from cli.runs import Progress, finish, person
from engine.errors import GateRefused, InvalidPackage, UsageError
from engine.run.replay import OnUnknown

TASK_BYTES = 1024 * 1024

group = typer.Typer(
    help="Workflow packages: validate, test, publish, look at, run.", no_args_is_help=True, rich_markup_mode=None
)

Directory = Annotated[Path, typer.Argument(help="The package's directory.", metavar="DIRECTORY")]
Repin = Annotated[bool, typer.Option("--repin", help="Pin all dependencies to their active revisions.")]


@group.command()
def validate(directory: Directory, as_json: Json = False) -> int:
    """Check a directory against the package contract. Only reads; no test is run."""
    with application(as_json=as_json) as app:
        found = app.validate(directory)
        told = found.to_dict()
        if output.mode.json:
            output.data(told)
        else:
            show_diagnostics(told["diagnostics"])
            errors = sum(item["severity"] == "error" for item in told["diagnostics"])
            warnings = len(found.diagnostics) - errors
            verdict = "keeps the contract" if found.ok else "breaks the contract"
            output.note(
                f"{directory}: {verdict} ({_many(errors, 'error')}, {_many(warnings, 'warning')}). No test was run."
            )
        return 0 if found.ok else 1


def _many(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


@group.command("test")
def run_tests(directory: Directory, repin: Repin = False, as_json: Json = False) -> int:
    """Run a package's behaviour tests in a cell, exactly as publication does; publishes nothing."""
    with application(as_json=as_json) as app:
        try:
            gated = awaited(partial(app.test, directory, repin=repin))
        except (InvalidPackage, GateRefused) as refused:
            show_refusal(refused)
            raise
        statement = json.loads(gated.report.to_json())
        if output.mode.json:
            output.data({"ok": True, "workflow_id": gated.workflow_id, "tree_id": gated.tree_id, "report": statement})
        else:
            show_report(statement)
        return 0


@group.command()
def publish(
    directory: Directory,
    replace: Annotated[bool, typer.Option("--replace", help="Publish a new revision of an existing package.")] = False,
    repin: Repin = False,
    as_json: Json = False,
) -> int:
    """Validate and test a package, and commit exactly the tested bytes as one revision."""
    with application(as_json=as_json) as app:
        try:
            published = awaited(partial(app.publish, directory, replace=replace, repin=repin))
        except (InvalidPackage, GateRefused) as refused:
            show_refusal(refused)
            raise
        revision = published.revision
        if output.mode.json:
            told = {"workflow_id": revision.workflow_id, "revision": revision.revision, "tree_id": revision.tree_id}
            output.data(
                {
                    "ok": True,
                    **told,
                    "pins": dict(revision.pins),
                    "report": published.report,
                    "notes": list(published.notes),
                }
            )
            return 0
        show_report(published.report)
        output.line(f"{revision.workflow_id} {revision.revision}")
        for name, pin in revision.pins.items():
            output.line(f"  pins {name} {pin}")
        for note in published.notes:
            output.note(f"note: {note}")
        return 0


@group.command("list")
def list_(as_json: Json = False) -> int:
    """List the published packages."""
    with application(as_json=as_json) as app:
        listing = app.catalog.list()
        if output.mode.json:
            problems = [problem.to_dict() for problem in listing.problems]
            output.data({"ok": True, "workflows": [entry.to_dict() for entry in listing.entries], "problems": problems})
            return 0
        rows = [
            [entry.workflow_id, entry.revision[:12], f"{entry.published_at:%Y-%m-%d %H:%M}", entry.summary.description]
            for entry in listing.entries
        ]
        output.table(["workflow", "revision", "published", "description"], rows)
        for problem in listing.problems:
            output.note(f"left out: {problem.name}: {problem.message} {problem.fix}")
        return 0


Reference = Annotated[str, typer.Argument(metavar="ID[@REV]", help="A package, or one revision of it.")]


@group.command()
def show(reference: Reference, as_json: Json = False) -> int:
    """Show one revision: metadata, pins, files and its gate report."""
    with application(as_json=as_json) as app:
        package = app.catalog.show(reference)
        report = app.gate_report(package.workflow_id, package.revision)
        if output.mode.json:
            output.data({"ok": True, **package.to_dict(), "gate_report": report})
            return 0
        told = package.to_dict()
        output.line(f"{package.workflow_id}  {package.summary.version}  {'active' if package.active else 'not active'}")
        output.line(package.summary.description)
        for name in ("revision", "tree_id", "published_at"):
            output.line(f"  {name:13} {told[name]}")
        output.line(f"  {'keywords':13} {', '.join(package.summary.keywords)}")
        output.line(f"  {'permissions':13} {', '.join(package.summary.permissions) or 'none'}")
        for name, pin in package.summary.pins.items():
            output.line(f"  {'pins':13} {name} {pin}")
        output.line(f"  {'gate':13} {gate_line(report)}")
        output.line("\n".join(f"    {path}" for path in package.files))
        return 0


@group.command()
def log(
    workflow_id: Annotated[str, typer.Argument(metavar="ID", help="A package.")],
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most this many.")] = 100,
    as_json: Json = False,
) -> int:
    """List the revisions of a package, newest first."""
    with application(as_json=as_json) as app:
        entries = app.catalog.log(workflow_id, limit=limit)
        rows = [
            {
                "revision": e.revision,
                "tree_id": e.tree_id,
                "published_at": e.published_at.isoformat(),
                "subject": e.subject,
            }
            for e in entries
        ]
        if output.mode.json:
            output.data({"ok": True, "workflow_id": workflow_id, "revisions": rows})
        else:
            output.table(
                ["revision", "published", "subject"],
                [[r["revision"], r["published_at"][:19], r["subject"]] for r in rows],
            )
        return 0


@group.command()
def diff(
    workflow_id: Annotated[str, typer.Argument(metavar="ID", help="A package.")],
    old: Annotated[str, typer.Argument(help="Older revision, at least 7 digits.")],
    new: Annotated[str, typer.Argument(help="Newer revision (default: the active one).")] = "",
    as_json: Json = False,
) -> int:
    """Show what changed between two revisions."""
    with application(as_json=as_json) as app:
        references = (f"{workflow_id}@{old}", f"{workflow_id}@{new}" if new else workflow_id)
        (_, before), (_, after) = (app.catalog.resolve(reference, authorised=False) for reference in references)
        changes = app.catalog.diff(workflow_id, before, after)
        if output.mode.json:
            output.data({"ok": True, "workflow_id": workflow_id, "diff": changes})
        else:
            output.line(changes.rstrip("\n")) if changes else output.note("No difference.")
        return 0


@group.command()
def run(
    reference: Reference,
    task: Annotated[str, typer.Argument(help="What the workflow is asked to do.")] = "",
    task_file: Annotated[
        str, typer.Option("--task-file", metavar="F|-", help="Read the task from a file, or - for stdin.")
    ] = "",
    workspace: Annotated[
        Path | None, typer.Option("--workspace", help="Directory the file calls see (default: the current one).")
    ] = None,
    model: Annotated[
        str, typer.Option("--model", metavar="MODEL", help="Model of agent() and llm(): scripted:FILE.")
    ] = "",
    on_unknown: Annotated[
        OnUnknown | None,
        typer.Option(
            "--on-unknown", help="Execute calls with an unknown outcome again, or stop (default: by their effects)."
        ),
    ] = None,
    session: Annotated[
        str, typer.Option("--session", metavar="NAME", help="Session that the run belongs to.")
    ] = "default",
    as_json: Json = False,
) -> int:
    """Run a pinned revision in a cell. Ctrl-C interrupts; `cloche runs resume` goes on."""
    text = read_task(task, task_file)
    with application(as_json=as_json) as app, Progress() as progress:
        started = partial(
            app.run,
            reference,
            text,
            workspace=workspace,
            model=model,
            on_unknown=on_unknown,
            session=session,
            by=person(),
            progress=progress,
            tell=output.confide,
        )
        return finish(app, awaited(started))


def read_task(task: str, task_file: str) -> str:
    """The task's text from the argument, a file or stdin.

    Raises:
        UsageError: both are given, the file cannot be read, is no UTF-8, or is larger than 1 MiB.
    """
    if task and task_file:
        raise UsageError("TASK and --task-file are both given.", fix="Give one of them.")
    if not task_file:
        return task
    try:
        raw = sys.stdin.buffer.read(TASK_BYTES + 1) if task_file == "-" else _head(Path(task_file))
        text = raw.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"the task file {task_file} cannot be read: {error}.", fix="Give a readable UTF-8 text file."
        ) from error
    if len(raw) > TASK_BYTES:
        raise UsageError(
            "the task is larger than 1 MiB.", fix="Put large input into the workspace and name it in the task."
        )
    return text


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(TASK_BYTES + 1)
