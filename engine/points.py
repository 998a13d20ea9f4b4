"""Names of the moments between which a crash makes a difference, so that tests can stop a process exactly there.

`reached(point)` does nothing, in about 40 ns, unless somebody installed a hook, and nothing in Cloche does: tests install one
in a process of their own, which kills or stops itself. docs/reference/crashes.md says what holds after each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

Point = Literal[
    "file.written",  # the new content is whole under another name, and the old one stands
    "file.renamed",
    "file.durable",
    "run.filled",  # a new run's folder is whole under another name
    "run.renamed",
    "run.created",
    "claim.locked",  # the run is owned, and its owner's name is not written yet
    "claim.named",
    "journal.before",
    "journal.written",
    "journal.durable",
    "log.written",
    "output.written",  # an output file is whole under another name
    "output.kept",
    "cell.claimed",  # a uid is taken, and there is no intent yet
    "cell.intent",  # the intent is written, and the engine was asked for nothing
    "cell.created",
    "cell.started",
    "cell.attested",
    "cell.killed",  # no process of it is left; the container still stands in the engine's list
    "cell.removed",  # the engine shows nothing of it; its directory is still there
]
"""A moment that has just come; `….before` one that is about to."""

Hook = Callable[[Point], object]

_hook: Hook | None = None


def reached(point: Point) -> None:
    """Say that this moment came."""
    if _hook is not None:
        _hook(point)


def install(hook: Hook) -> None:
    """Have `hook` called at every point from now on, in whatever thread it is reached. For tests, in their own process."""
    global _hook
    _hook = hook
