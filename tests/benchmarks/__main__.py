"""`python -m tests.benchmarks [--check] [--json] [--rounds N] [--only GROUP ...]`: measure, print a table, judge the bands."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import structlog

from tests.benchmarks import (
    commands,
    journal_size,
    kills,
    one_shot,
    packages,
    recorded_call,
    replayed,
    startup,
    throughput,
    waiting,
    waiting_cells,
)
from tests.benchmarks.figures import SLACK, Figure, outside
from tests.benchmarks.house import published, scratch
from tests.benchmarks.peers import process
from tests.benchmarks.peers.subjects import open_subjects

GROUPS = (
    "one-shot",
    "cells",
    "commands",
    "throughput",
    "call",
    "replay",
    "resume",
    "journal",
    "waiting",
    "kills",
    "validate",
    "list",
    "start",
)
WITH_PEERS = frozenset({"call", "replay", "kills"})
WITHOUT_APP = frozenset({"validate", "list", "start"})

Measure = Callable[[], list[Figure]]


def main() -> int:
    """Exit code: 0, or 1 when `--check` found a figure outside its band, or could not measure beside the peers."""
    options = _parser().parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    groups = options.only or GROUPS
    missing = bool(WITH_PEERS & set(groups)) and not process.available()
    if missing:
        print(process.MISSING, file=sys.stderr)
    begun = time.monotonic()
    with scratch() as root:
        figures = measure(root, groups=groups, rounds=options.rounds)
    took_s = time.monotonic() - begun
    failed = outside(figures)
    if options.json:
        print(json.dumps(_document(figures, took_s), indent=1))
    else:
        print(table(figures))
        print(f"\n{took_s:.0f} s in all; {_surroundings()}")
    if not options.check:
        return 0
    for figure in failed:
        print(f"outside its band: {figure.name}, {_target(figure)}", file=sys.stderr)
    return 1 if failed or missing else 0


def measure(root: Path, *, groups: tuple[str, ...] | list[str], rounds: int) -> list[Figure]:
    """The figures of some groups, in the order of `GROUPS`; without the peers' where those are not installed."""
    figures: list[Figure] = []
    with ExitStack() as stack:
        measures = _measures(stack, root, set(groups), rounds)
        for group in GROUPS:
            if group in groups:
                print(f"measuring {group} …", file=sys.stderr)
                figures += measures[group]()
    return figures


def _measures(stack: ExitStack, root: Path, groups: set[str], rounds: int) -> dict[str, Measure]:
    measures: dict[str, Measure] = {
        "validate": partial(packages.measure_validation, root=root, rounds=_share(rounds, 3)),
        "list": partial(packages.measure_listing, root=root, rounds=_share(rounds, 2)),
        "start": partial(startup.measure, rounds=rounds),
    }
    if groups <= WITHOUT_APP:
        return measures
    app = stack.enter_context(published(root))
    with_peers = process.available()
    peers = stack.enter_context(open_subjects(root / "peers")) if with_peers and {"call", "replay"} & groups else []
    return measures | {
        "one-shot": partial(one_shot.measure, app, root=root, rounds=rounds),
        "cells": partial(waiting_cells.measure, app, root=root, rounds=2 * rounds),
        "commands": partial(commands.measure, app, root=root, rounds=rounds),
        "throughput": partial(throughput.measure, app, root=root / "throughput", rounds=_share(rounds, 3)),
        "call": partial(recorded_call.measure, app, root=root, rounds=_share(rounds, 3), peers=peers),
        "replay": partial(replayed.measure, app, rounds=_share(rounds, 3), peers=peers),
        "resume": partial(replayed.measure_resume, app, rounds=rounds),
        "journal": partial(journal_size.measure, app),
        "waiting": partial(waiting.measure, app),
        "kills": partial(kills.measure, app, root=root / "kills", with_peers=with_peers),
    }


def table(figures: list[Figure]) -> str:
    """For people: one line a figure."""
    head = ("", "median", "beside", "median", "ratio", "target", "")
    rows = [head] + [
        (
            figure.name,
            figure.shown(figure.median),
            figure.baseline,
            figure.shown(figure.baseline_median),
            "" if figure.ratio is None else f"{figure.ratio:.2f}",
            _target(figure),
            figure.verdict,
        )
        for figure in figures
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _target(figure: Figure) -> str:
    target = figure.target
    if target is None:
        return ""
    if target.of == "median":
        return f"≤ {figure.shown(target.most)} (band {figure.shown(target.band)})"
    return f"≤ {target.most:g} × (band {target.band:.2f} ×)"


def _document(figures: list[Figure], took_s: float) -> dict[str, object]:
    return {
        "version": 2,
        "took_s": round(took_s, 3),
        "cpus": os.cpu_count(),
        "load": os.getloadavg()[0],
        "slack": SLACK,
        "figures": [figure.to_dict() for figure in figures],
    }


def _surroundings() -> str:
    return f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, Python {sys.version.split()[0]}"


def _share(rounds: int, part: int) -> int:
    return max(3, rounds // part)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--check", action="store_true", help=f"exit 1 when a figure is past {SLACK:g} times its target")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--rounds", type=int, default=15, help="turns of each comparison (default 15)")
    parser.add_argument("--only", nargs="+", choices=GROUPS, help="measure some groups only")
    return parser


if __name__ == "__main__":
    sys.exit(main())
