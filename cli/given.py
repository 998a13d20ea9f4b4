"""A value that a person gives: JSON from the command line, a file or stdin, in the form in which calls hold values."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from cloche_guest import codec

from engine.errors import UsageError

Value = Annotated[str | None, typer.Option("--value", metavar="JSON", help="The value, as JSON.")]
ValueFile = Annotated[
    str, typer.Option("--value-file", metavar="F|-", help="Read the JSON from a file, or - for stdin.")
]
CodecForm = Annotated[
    bool,
    typer.Option(
        "--codec", help="The JSON is in codec form (docs/reference/codec.md), for values that JSON has no word for."
    ),
]


def is_given(value: str | None, value_file: str) -> bool:
    """True when one of both options is there."""
    return value is not None or bool(value_file)


def given(value: str | None, value_file: str, *, codec_form: bool) -> Any:
    """The value in codec form.

    Raises:
        UsageError: both or neither is given, the file cannot be read, or the text is no JSON or no value.
    """
    if (value is not None) == bool(value_file):
        raise UsageError("A value is given by --value or by --value-file.", fix="Give one of them.")
    try:
        text = value if value is not None else _read(value_file)
        found = json.loads(text, parse_constant=_constant)
        if not codec_form:
            return codec.encode(found)
        codec.check(found)
        return found
    except (ValueError, RecursionError, codec.CodecError) as error:
        raise UsageError(
            f"the value is no JSON that can be recorded: {error}.", fix="A text needs its own quotes."
        ) from error
    except OSError as error:
        raise UsageError(f"the file {value_file} cannot be read: {error.strerror}.") from error


def _read(name: str) -> str:
    return (sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()).decode()


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
