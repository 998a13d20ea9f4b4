"""Runs that stopped between two calls, over and over: a completed run's record, cut where a killed owner would have left it.

A journal is only ever appended to, so what a process that is killed leaves is the beginning of what it would have written. The
run is made once, by really making its calls, and put back before every round.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio

from engine.app import App
from engine.run.status import Status
from tests.benchmarks.house import REPLAYED


@dataclass(frozen=True)
class Interrupted:
    """A run of `calls` completed calls and one that was begun."""

    app: App
    run_id: str
    calls: int
    folder: Path
    kept: bytes

    def put_back(self) -> None:
        """Stand where it was interrupted."""
        (self.folder / "journal.jsonl").write_bytes(self.kept)
        (self.folder / "state.json").unlink(missing_ok=True)
        for name in ("logs", "output"):
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def resume(self) -> None:
        """As its owner would, to its end."""
        view = anyio.run(partial(self.app.resume, self.run_id))
        assert view.status is Status.COMPLETED, view


def make_interrupted(app: App, calls: int) -> Interrupted:
    """A run of the package `REPLAYED`, cut after its last call began."""
    view = anyio.run(partial(app.run, REPLAYED, str(calls)))
    assert view.status is Status.COMPLETED, view
    folder = app.runs.open(view.run_id).folder
    kept = up_to_last_start((folder / "journal.jsonl").read_bytes())
    return Interrupted(app, view.run_id, calls, folder, kept)


def up_to_last_start(journal: bytes) -> bytes:
    """The journal as it stood when the last call had begun and nothing more was known.

    Raises:
        ValueError: no call began.
    """
    lines = journal.splitlines(keepends=True)
    while lines and json.loads(lines[-1])["e"] != "call.started":
        lines.pop()
    if not lines:
        raise ValueError("no call began")
    return b"".join(lines)
