"""What the command line prints: data to stdout, everything else to stderr. The only module that writes to either."""

from __future__ import annotations

import json
import sys
from typing import Any

from engine import settings
from engine.errors import ClocheError


class _Mode:
    """How this command prints; set once by the root options."""

    json: bool = False


mode = _Mode()


def line(text: str = "") -> None:
    """One line of data on stdout, without control characters."""
    _plain(sys.stdout, text)


def note(text: str) -> None:
    """One line for people on stderr."""
    _plain(sys.stderr, text)


def _plain(stream: Any, text: str) -> None:
    stream.write(printable(text) + "\n")
    stream.flush()


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
    # Loading these takes as long as starting the interpreter, and most commands print lines.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for column in columns:
        made.add_column(column, overflow="fold", no_wrap=column in columns[:1])
    for row in rows:
        made.add_row(*(Text(printable(cell)) for cell in row))
    on_screen = sys.stdout.isatty()
    coloured = on_screen and settings.colour_wanted()
    width = None if on_screen else 200
    Console(no_color=not coloured, force_terminal=coloured, highlight=False, width=width, soft_wrap=True).print(made)


def printable(text: str) -> str:
    """Text with control characters (also terminal escapes and bidi overrides) made visible; newlines and tabs stay."""
    return "".join(c if c in "\n\t" or (c.isprintable() or c == " ") else f"\\x{ord(c):02x}" for c in text)


def on_terminal() -> bool:
    """True when progress may be shown."""
    return sys.stderr.isatty() and not mode.json
