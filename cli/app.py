"""The command tree and what surrounds every command: the application object, errors and their exit codes."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from typer.exceptions import TyperException

from cli import output
from cli.interrupts import INTERRUPTED, interrupts
from engine import settings as settings_module
from engine.app import App, open_app
from engine.errors import ClocheError, EngineFailure, UsageError
from engine.files import make_directory, write_atomic

root = typer.Typer(
    name="cloche",
    help="Run workflows that a model wrote without trusting them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

T = TypeVar("T")

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object (docs/reference/json.md).")]


@root.callback()
def options(
    version: Annotated[bool, typer.Option("--version", "-V", help="Print the version and exit.")] = False,
) -> None:
    """Accept `--version` beside other words; alone it never gets here."""


@contextmanager
def application(*, as_json: bool) -> Iterator[App]:
    """The object graph for one command; also decides how the command prints."""
    output.mode.json = as_json
    with open_app(command=True) as app:
        interrupts.left = partial(_left_to_the_reaper, app.settings.home)
        app.progress = output.note if output.on_terminal() else None
        yield app


def awaited(work: Callable[[], Awaitable[T]]) -> T:
    """What a coroutine function gives, from an event loop of its own.

    Raises:
        KeyboardInterrupt: a signal came, and what was begun is ended and recorded. Work that comes to its end all the same
            gives its value: it is done, and can not be resumed.
    """
    import anyio

    with interrupts.held():
        ended = anyio.run(_cancellable, work)
    if not ended:
        raise KeyboardInterrupt
    interrupts.outrun()
    return ended[0]


async def _cancellable(work: Callable[[], Awaitable[T]]) -> tuple[T] | None:
    """Its value; None when a signal cancelled it. Through a scope, from which clean-up can be shielded, not through the task."""
    import asyncio

    import anyio

    loop = asyncio.get_running_loop()
    with (
        anyio.CancelScope() as scope,
        interrupts.cancelling(partial(loop.call_soon_threadsafe, scope.cancel)),
    ):
        return (await work(),)
    return None


def _left_to_the_reaper(home: Path) -> str:
    """Which cells this process has not ended, and what ends them; "" for none."""
    from engine.sandbox.place import held_by

    cells = held_by(home, os.getpid())
    return f"Left: {', '.join(f'cell {cell}' for cell in cells)}. `cloche cells reap` ends them." if cells else ""


def tree() -> typer.Typer:
    """The whole command tree; the verbs are imported when it is first asked for."""
    from cli import again, decide, doctor, image, runs, sandbox, workflows

    if not root.registered_groups:
        workflows.group.command("verify-runs")(again.verify_runs)
        for name, verb in (
            ("decide", decide.decide),
            ("answer", decide.answer),
            ("fork", again.fork),
            ("verify", again.verify),
        ):
            runs.group.command(name)(verb)
        for group, name in (
            (workflows.group, "workflows"),
            (runs.group, "runs"),
            (image.group, "image"),
            (sandbox.group, "sandbox"),
            (sandbox.cells, "cells"),
        ):
            root.add_typer(group, name=name)
        root.command("doctor")(doctor.doctor)
    return root


def invoke(argv: list[str]) -> int:
    """Run one command; returns the exit code of docs/reference/exit-codes.md."""
    output.mode.json = "--json" in argv
    try:
        code = typer.main.get_command(tree())(argv, prog_name="cloche", standalone_mode=False)
    except TyperException as error:
        if error.format_message().startswith("Usage:"):  # a group without a verb: the list of verbs is the answer
            output.note(error.format_message())
            return UsageError.exit_code
        fix = "`cloche --help` and `cloche COMMAND --help` list what there is."
        return output.failed(UsageError(error.format_message(), fix=fix))
    except typer.Abort:
        return INTERRUPTED
    except ClocheError as error:
        return output.failed(error)
    except Exception as error:
        if interrupts.came and "KeyboardInterrupt" in str(error):
            raise KeyboardInterrupt from error  # one that struck while a library in another language called back
        return output.failed(_crash(error))
    return code if isinstance(code, int) else 0


def _crash(error: Exception) -> EngineFailure:
    told = "".join(traceback.format_exception(error))
    try:
        place = make_directory(settings_module.load().home / "logs") / "last-crash.txt"
        write_atomic(place, told.encode("utf-8", "backslashreplace"))
        fix = f"This is a bug; the details are in {place}."
    except ClocheError:
        sys.stderr.write(told)
        fix = "This is a bug; the details are above."
    return EngineFailure(f"{type(error).__name__}: {error}", fix=fix)
