"""Take every protection away, make every attempt, and write down what got through: `make matrix`. Minutes; needs an engine.

python -m tests.matrix [PROTECTION …]    measures; all of them are written down, some only printed
python -m tests.matrix --render          renders the page from the last measurement, for `make docs`
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import anyio

from engine.sandbox.attempts import Attempt, attempts
from engine.sandbox.docker import Engine
from engine.settings import load
from tests.helpers.sandbox import loaded_image, make_sandbox, nothing_left
from tests.matrix.measure import Measured, measured
from tests.matrix.page import PAGE, render, write
from tests.matrix.weaker import FIELDS, PROTECTIONS

FLOODS = frozenset({"process_flood"})
"""Not without a bound on a machine that others use: what a missing one means is shown by programs."""


def concerned(protection: str) -> tuple[Attempt, ...]:
    """All attempts that share a cell, and for one more system call those that the list may stop."""
    made = tuple(one for one in attempts() if one.kind == "attempt" and one.applies("runc") and one.name not in FLOODS)
    if protection in FIELDS:
        return made
    return tuple(one for one in made if {"EPERM", "ENOSYS"} & set(one.expects["runc"].split(" or ")))


async def main(names: list[str]) -> None:
    engine = Engine(load().docker_host, timeout_s=60)
    image_id = loaded_image(engine)
    found: dict[str, Measured] = {}
    with tempfile.TemporaryDirectory(prefix="cloche-matrix-") as home:
        sandbox = make_sandbox(Path(home) / "home", engine, runtime="runc")
        full = sandbox.policy("probe")
        with nothing_left(sandbox):
            for name, weaken in PROTECTIONS.items():
                if names and name not in names:
                    continue
                weaker = weaken(full, sandbox.settings.home)
                one = await measured(sandbox, image_id, full=full, weaker=weaker, attempts=concerned(name))
                # what else a call answers than EPERM differs from kernel to kernel
                found[name] = one if name in FIELDS else replace(one, otherwise=())
                print(
                    name,
                    "→",
                    found[name].refused or ", ".join(found[name].through) or found[name].seen or "-",
                    flush=True,
                )
    engine.close()
    if not names:
        write(found)
        print(f"wrote {PAGE}")


if sys.argv[1:] == ["--render"]:
    render()
else:
    anyio.run(main, sys.argv[1:])
