"""Entry of `cloche`: signals, settings, errors and exit codes around the verbs. `--version` answers before anything is imported."""

from __future__ import annotations

import sys

from cli.interrupts import INTERRUPTED, interrupts, leave

VERSION = "0.1.0"


def main(arguments: list[str] | None = None) -> None:
    """Run one command and exit with its code (docs/reference/exit-codes.md); never shows a traceback for a user's mistake."""
    argv = sys.argv[1:] if arguments is None else arguments
    if argv in (["--version"], ["-V"]):
        print(f"cloche {VERSION}")
        sys.exit(0)
    interrupts.install()
    try:
        code = _run(argv)
        interrupts.ended(code)
    except KeyboardInterrupt:
        code = _interrupted()
        interrupts.ended(code)
    if interrupts.came:
        leave(code)
    sys.exit(code)


def _run(argv: list[str]) -> int:
    from cli import app

    interrupts.started()
    try:
        return app.invoke(argv)
    except BrokenPipeError:
        sys.stderr.close()
        return 1


def _interrupted() -> int:
    from cli import output

    try:
        output.told("Interrupted.", fix="`cloche runs list` shows what can be resumed.")
    except BrokenPipeError:
        sys.stderr.close()
    return INTERRUPTED


if __name__ == "__main__":
    main()
