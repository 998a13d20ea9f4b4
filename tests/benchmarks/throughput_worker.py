"""One worker of `tests.benchmarks.throughput`: `runs|raw HOME COUNT ROOT`; says ready, waits for a line, does its work, says done."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio

from engine.app import open_app
from tests.benchmarks.house import TRIVIAL, settings_of
from tests.benchmarks.one_shot import drive_app, raw_engine
from tests.benchmarks.throughput import WORKERS


def main(kind: str, home: Path, count: int, root: Path) -> None:
    """Runs go through the pool, whose places are shared by all workers; used cells are removed, and new ones wait, when it is done."""
    with open_app(settings_of(home, CLOCHE_WARM_CELLS=str(WORKERS))) as app:
        anyio.run(app.cells.ready)
        if kind == "raw":
            with raw_engine(app, root) as once:
                once()
                _started()
                for _ in range(count):
                    once()
                _told("done")
            return
        snapshot = app.snapshots.for_revision(*app.catalog.resolve(TRIVIAL))
        keeper = app.sandbox.keeper
        assert keeper is not None
        drive_app(app, snapshot)
        keeper.settle()
        _started()
        for _ in range(count):
            drive_app(app, snapshot)
        keeper.settle()
        _told("done")
        sys.stdin.readline()
        app.reap(idle=True)


def _started() -> None:
    _told("ready")
    sys.stdin.readline()


def _told(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
