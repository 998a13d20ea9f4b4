"""`cloche runs decide` and `answer`: what only a person can say about a call."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from typing import Annotated

import typer

from cli import output
from cli.app import Json, application, awaited
from cli.given import CodecForm, Value, ValueFile, given, is_given
from cli.next_steps import next_steps
from cli.run_text import headline
from cli.runs import NamedRun, Progress, described, finish, person
from engine.app import App
from engine.errors import UsageError
from engine.run.view import RunView

Number = Annotated[int, typer.Argument(metavar="CALL", help="The call's number, as `runs show` prints it.")]


class Choice(StrEnum):
    """What a person can decide about a call of unknown outcome."""

    RERUN = "rerun"
    FAIL = "fail"
    VALUE = "value"


_WORDS = {Choice.RERUN: "rerun", Choice.FAIL: "treat-as-failed", Choice.VALUE: "value"}


def decide(
    run_id: NamedRun,
    call: Number,
    what: Annotated[
        Choice,
        typer.Argument(
            metavar="rerun|fail|value", help="Execute it again, raise it as failed, or take --value for its result."
        ),
    ],
    value: Value = None,
    value_file: ValueFile = "",
    codec_form: CodecForm = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run at once.")] = False,
    as_json: Json = False,
) -> int:
    """Decide about a call whose outcome is unknown. One decision covers one attempt; nothing is executed before a resume."""
    if is_given(value, value_file) != (what is Choice.VALUE):
        told = "`value` needs --value or --value-file." if what is Choice.VALUE else f"`{what}` takes no value."
        raise UsageError(told, fix="`cloche runs decide --help` shows the forms.")
    encoded = given(value, value_file, codec_form=codec_form) if what is Choice.VALUE else None
    with application(as_json=as_json) as app:
        view = app.decide(run_id, call, _WORDS[what], value=encoded, by=person())
        return _go_on(app, run_id) if resume else _told(app, view)


def answer(
    run_id: NamedRun,
    call: Annotated[
        int | None,
        typer.Argument(
            metavar="[CALL]", help="The question's number, as `runs show` prints it (default: the only one)."
        ),
    ] = None,
    value: Value = None,
    value_file: ValueFile = "",
    codec_form: CodecForm = False,
    later: Annotated[bool, typer.Option("--later", help="Record the answer and do not go on with the run.")] = False,
    as_json: Json = False,
) -> int:
    """Answer a question that a run waits for, and go on with the run."""
    encoded = given(value, value_file, codec_form=codec_form)
    with application(as_json=as_json) as app:
        recorded = app.answer(run_id, call, encoded, by=person())
        if not recorded:
            output.note("the process that executes the run takes the answer and goes on with it.")
        return _go_on(app, run_id) if recorded and not later else _told(app, app.view(run_id))


def _go_on(app: App, run_id: str) -> int:
    with Progress() as progress:
        resumed = partial(app.resume, run_id, by=person(), progress=progress, tell=output.confide)
        return finish(app, awaited(resumed))


def _told(app: App, view: RunView) -> int:
    if output.mode.json:
        output.data(described(app, view))
    else:
        output.line(headline(view))
        for step in next_steps(view)[:1]:
            output.note(f"next: {step}")
    return 0
