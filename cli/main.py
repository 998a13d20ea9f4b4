"""Entry of `cloche`: settings, errors and exit codes around the verbs. `--version` answers before anything is imported."""

from __future__ import annotations

import signal
import sys
from types import FrameType

VERSION = "0.1.0"
INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> None:
    """Run one command and exit with its code (docs/reference/exit-codes.md); never shows a traceback for a user's mistake."""
    argv = sys.argv[1:] if arguments is None else arguments
    if argv in (["--version"], ["-V"]):
        print(f"cloche {VERSION}")
        sys.exit(0)
    signal.signal(signal.SIGTERM, _terminate)
    sys.exit(_run(argv))


def _terminate(_number: int, _frame: FrameType | None) -> None:
    """SIGTERM takes the way of Ctrl-C, so that a run ends `interrupted` and its cell is gone."""
    signal.raise_signal(signal.SIGINT)


def _run(argv: list[str]) -> int:
    from cli import app, output

    try:
        return app.invoke(argv)
    except KeyboardInterrupt:
        output.told("Interrupted.", fix="`cloche runs list` shows what can be resumed.")
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return 1


if __name__ == "__main__":
    main()
