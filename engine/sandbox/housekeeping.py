"""The process that a command leaves behind for a moment: ends what has no owner, fills the pool, and is gone.

    python -m engine.sandbox.housekeeping '[["run", "sha256:…", 3600.0, "runc"]]'

Each item is kind, image, bound of the job in seconds, and runtime. It says nothing; what fails is counted in the home's tally.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress

import anyio

from engine import log
from engine.errors import ClocheError
from engine.sandbox import pool, tally
from engine.sandbox.launch import Wish
from engine.sandbox.policy import CellPolicy
from engine.sandbox.service import Sandbox
from engine.settings import load


def main(argument: str) -> int:
    """0 when everything was done."""
    settings = load()
    log.show_from("error")
    sandbox = Sandbox.from_settings(settings)
    failed = 0
    try:
        sandbox.reap()
        for kind, image_id, deadline_s, runtime in json.loads(argument):
            policy = CellPolicy.from_settings(settings, runtime, kind)
            anyio.run(pool.fill, sandbox, Wish(image_id, kind, deadline_s, 0, "", policy, policy))
    except (ClocheError, OSError):
        failed = 1
        with suppress(ClocheError, OSError):
            tally.add(settings.home, failed=1)
    finally:
        sandbox.close()
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
