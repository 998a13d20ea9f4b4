"""The process that a command leaves behind for a moment: ends what has no owner, has cells wait for the next jobs, and is gone.

    python -m engine.housekeeping run gate

The words are the kinds of jobs that the command had. It says nothing; what fails is counted in the home's tally.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import cast

import anyio

from engine.app import open_app
from engine.errors import ClocheError
from engine.sandbox import tally
from engine.sandbox.policy import Kind


def main(kinds: list[str]) -> int:
    """0 when everything was done."""
    with open_app() as app:
        try:
            anyio.run(app.cells.keep_house, cast("list[Kind]", kinds))
        except (ClocheError, OSError):
            with suppress(ClocheError, OSError):
                tally.add(app.settings.home, failed=1)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
