"""What the command line prints: data to stdout, everything else to stderr. The only module that writes to either."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from engine import settings
from engine.errors import ClocheError


class _Mode:
    """How this command prints; set once by the root options."""

    json: bool = False


mode = _Mode()


def _console(stream: Any) -> Console:
    terminal = stream.isatty() and settings.colour_wanted()
    width = None if stream.isatty() else 200
    return Console(
        file=stream, no_color=not terminal, force_terminal=terminal, highlight=False, width=width, soft_wrap=True
    )


def line(text: str | Text = "") -> None:
    """One line of data on stdout. Text from outside never carries markup or control characters."""
    _console(sys.stdout).print(text if isinstance(text, Text) else Text(printable(text)))


def note(text: str) -> None:
    """One line for people on stderr."""
    _console(sys.stderr).print(Text(printable(text)))


def confide(text: str) -> None:
    """Something for the owner's terminal alone; nothing when stderr goes elsewhere."""
    if sys.stderr.isatty():
        note(text)


def told(message: str, *, fix: str = "") -> None:
    """A message and the way out, on stderr."""
    note(f"cloche: {message}" + (f"\n  → {fix}" if fix else ""))


def data(value: dict[str, Any]) -> None:
    """The one JSON object of a command run with `--json`; a terminal may show it, so what `printable` would replace is escaped."""
    text = json.dumps(value, ensure_ascii=False, default=str, indent=2)
    # outside strings JSON has nothing but line ends that is not printable
    sys.stdout.write("".join(c if c == "\n" or c.isprintable() else json.dumps(c)[1:-1] for c in text) + "\n")
    sys.stdout.flush()


def failed(error: ClocheError) -> int:
    """Report an error in the form of this command; returns its exit code."""
    if mode.json:
        told_error = {"code": error.code, "message": error.message, "fix": error.fix, "exit": error.exit_code}
        data({"ok": False, "error": told_error, **error.details()})
    else:
        told(error.message, fix=error.fix)
    return error.exit_code


def table(columns: list[str], rows: list[list[str]]) -> None:
    """Aligned columns on stdout; nothing but a note on stderr when there are no rows."""
    if not rows:
        note("(none)")
        return
    made = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for column in columns:
        made.add_column(column, overflow="fold", no_wrap=column in columns[:1])
    for row in rows:
        made.add_row(*(Text(printable(cell)) for cell in row))
    _console(sys.stdout).print(made)


def printable(text: str) -> str:
    """Text with control characters (also terminal escapes and bidi overrides) made visible; newlines and tabs stay."""
    return "".join(c if c in "\n\t" or (c.isprintable() or c == " ") else f"\\x{ord(c):02x}" for c in text)


def on_terminal() -> bool:
    """True when progress may be shown."""
    return sys.stderr.isatty() and not mode.json
