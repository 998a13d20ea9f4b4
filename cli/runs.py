"""`cloche runs`: what was run, how it stands, and going on with it."""

from __future__ import annotations

import getpass
import time
from functools import partial
from types import TracebackType
from typing import Annotated, Any, Literal

import typer
from cloche_guest import codec

from cli import output
from cli.app import Json, application, awaited
from cli.next_steps import next_steps
from cli.run_text import counts, headline, rendered
from engine.app import App
from engine.errors import NotFound
from engine.run.replay import OnUnknown
from engine.run.status import Status
from engine.run.view import RunView

WATCH_S = 0.5

group = typer.Typer(
    help="Runs: list, look at, resume, decide, fork, verify, cancel.", no_args_is_help=True, rich_markup_mode=None
)

RunId = Annotated[str, typer.Argument(metavar="[RUN]", help="A run id (default: the newest run).")]
NamedRun = Annotated[str, typer.Argument(metavar="RUN", help="A run id.")]


class Progress:
    """Shows how a run goes on, on a terminal only; keeps the last view."""

    def __init__(self) -> None:
        self.run_id = ""
        self.last: RunView | None = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.run_id and kind is not None and issubclass(kind, KeyboardInterrupt):
            output.note(f"run {self.run_id} was interrupted; `cloche runs resume {self.run_id}` goes on.")

    def __call__(self, view: RunView) -> None:
        if not self.run_id:
            self.run_id = view.run_id
            output.note(f"run {view.run_id}")
        if output.on_terminal() and view != self.last:
            output.note(f"  {view.status.value}: {view.calls_made} calls, {view.executions} of {view.cap} executions")
        self.last = view


def described(app: App, view: RunView, *, value: bool = True) -> dict[str, Any]:
    """The JSON form of a run: its view, counts of its calls, and with `value` the whole result in codec form."""
    told = {"ok": view.status is Status.COMPLETED, **view.model_dump(mode="json"), "counts": counts(view)}
    if value and view.status is Status.COMPLETED:
        told["value"] = app.result(view.run_id)
    return told


def finish(app: App, view: RunView) -> int:
    """Print how a run ended that this command executed; returns its exit code."""
    if output.mode.json:
        output.data(described(app, view))
    else:
        if view.status is Status.COMPLETED:
            output.line(_result_text(app, view))
        output.note(headline(view))
        if view.status is not Status.COMPLETED:
            output.told(view.message or view.reason, fix=_way_out(view))
    return view.exit_code


def _way_out(view: RunView) -> str:
    steps = " ".join(map(str, next_steps(view)))
    return f"{steps} `cloche runs show {view.run_id}` tells more."


def _result_text(app: App, view: RunView) -> str:
    """The whole result as a person reads it: text as it is, everything else as JSON."""
    value = app.result(view.run_id)
    return value if isinstance(value, str) else codec.text(value)


@group.command("list")
def list_(
    session: Annotated[str, typer.Option("--session", metavar="NAME", help="Only this session.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most this many.")] = 50,
    as_json: Json = False,
) -> int:
    """List runs, newest first."""
    with application(as_json=as_json) as app:
        views, broken = app.views(session=session, limit=limit)
        if output.mode.json:
            rows = [_row(view) for view in views]
            output.data(
                {"ok": True, "runs": rows, "problems": [{"code": e.code, "message": e.message} for e in broken]}
            )
            return 0
        output.table(
            ["run", "workflow", "status", "reason", "calls", "generations"],
            [
                [v.run_id, v.workflow_id, v.status.value, v.reason, str(v.calls_made), str(len(v.generations))]
                for v in views
            ],
        )
        for error in broken:
            output.note(f"left out: {error.message} {error.fix}")
        return 0


def _row(view: RunView) -> dict[str, Any]:
    names = (
        "run_id",
        "session",
        "workflow_id",
        "revision",
        "status",
        "reason",
        "created_at",
        "ended_at",
        "executions",
        "cap",
    )
    told = view.model_dump(mode="json", include=set(names))
    return {**{name: told[name] for name in names}, "generations": len(view.generations), "counts": counts(view)}


@group.command()
def show(
    run_id: RunId = "",
    result: Annotated[bool, typer.Option("--result", help="Print the whole result and nothing else.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Show every call; fold nothing.")] = False,
    as_json: Json = False,
) -> int:
    """Show one run: its generations, what it called, what that gave, how it ended, and what to do now."""
    with application(as_json=as_json) as app:
        run = app.runs.open(run_id) if run_id else app.runs.newest()
        view = app.view(run.run_id)
        if output.mode.json:
            output.data(described(app, view, value=result))
        elif result:
            if view.status is not Status.COMPLETED:
                raise NotFound(
                    f"run {view.run_id} has no result: it is {view.status.value}.", fix="`cloche runs show` tells more."
                )
            output.line(_result_text(app, view))
        else:
            output.line(rendered(view, folder=run.folder, everything=everything))
        return 0


@group.command()
def watch(run_id: RunId = "", as_json: Json = False) -> int:
    """Follow a run until it ends; returns its exit code."""
    with application(as_json=as_json) as app:
        chosen, told = run_id or app.runs.newest().run_id, ""
        while True:
            view = app.view(chosen)
            now = f"{view.status.value}: {view.calls_made} calls, {view.executions} of {view.cap} executions"
            if now != told and not output.mode.json:
                output.line(now)
            told = now
            if view.status is not Status.RUNNING:
                break
            time.sleep(WATCH_S)
        if output.mode.json:
            output.data(described(app, view))
        else:
            output.note(headline(view))
        return view.exit_code


@group.command()
def logs(
    run_id: RunId = "",
    stderr: Annotated[bool, typer.Option("--stderr", help="Standard error instead of standard output.")] = False,
    as_json: Json = False,
) -> int:
    """Print what the program wrote; what was cut is said in place."""
    with application(as_json=as_json) as app:
        run = app.runs.open(run_id) if run_id else app.runs.newest()
        stream: Literal["stdout", "stderr"] = "stderr" if stderr else "stdout"
        text = run.log_text(stream)
        if output.mode.json:
            output.data({"ok": True, "run_id": run.run_id, "stream": stream, "text": text})
        elif text:
            output.line(text.rstrip("\n"))
        else:
            output.note(f"run {run.run_id} wrote nothing to {stream}.")
        return 0


@group.command()
def resume(
    run_id: NamedRun,
    on_unknown: Annotated[
        OnUnknown | None,
        typer.Option(
            "--on-unknown", help="Execute calls with an unknown outcome again, or stop (default: by their effects)."
        ),
    ] = None,
    raise_cap: Annotated[
        int | None, typer.Option("--raise-cap", min=1, metavar="N", help="Go on with a capped run up to N executions.")
    ] = None,
    accept_divergence: Annotated[
        bool,
        typer.Option("--accept-divergence", help="Execute a call that differs from the record instead of stopping."),
    ] = False,
    as_json: Json = False,
) -> int:
    """Go on with a run: replay what completed, execute the rest."""
    with application(as_json=as_json) as app, Progress() as progress:
        resumed = partial(
            app.resume,
            run_id,
            on_unknown=on_unknown,
            raise_cap=raise_cap,
            accept_divergence=accept_divergence,
            by=person(),
            progress=progress,
            tell=output.confide,
        )
        return finish(app, awaited(resumed))


@group.command()
def cancel(run_id: NamedRun, as_json: Json = False) -> int:
    """Cancel a run for good, whoever executes it."""
    with application(as_json=as_json) as app:
        view = awaited(partial(app.cancel, run_id, by=person()))
        if output.mode.json:
            output.data(described(app, view))
        else:
            output.line(headline(view))
        return 0 if view.status is Status.CANCELLED else 1


def person() -> str:
    """Who gives this command, for the record; "" where the machine does not know."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
