"""One recorded call across the cell boundary, beside what its record must cost (two appends that are on disk), and beside peers.

A peer's step is a function of the same process; ours leaves a container. What is compared is what a workflow's author waits for.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from engine.app import App
from tests.benchmarks.figures import Figure, Target, compare, difference_quotients
from tests.benchmarks.house import CALLS
from tests.benchmarks.one_shot import run_once
from tests.benchmarks.peers.subjects import Subject
from tests.benchmarks.rounds import Action, interleaved

NAME = "recorded call"
TARGET = Target("ratio", 2.5)
FEW, MANY = 50, 550
PEER_FEW, PEER_MANY = 20, 220
NEIGHBOURS = 3
LINE = b"x" * 199 + b"\n"
"""About as long as the journal's lines."""


def measure(app: App, *, root: Path, rounds: int, peers: Sequence[Subject]) -> list[Figure]:
    """Calls of `now()` in one run: what 500 more of them add, divided by 500; and of a peer's steps, 200 more.

    Peers take turns with ours a few at a time, so that all of a round are near each other.
    """
    ours: list[float] = []
    plain: list[float] = []
    beside: list[Figure] = []
    for at in range(0, max(1, len(peers)), NEIGHBOURS):
        near = peers[at : at + NEIGHBOURS]
        few, many, pairs, *others = interleaved(*_actions(app, root, near), rounds=rounds)
        calls = difference_quotients(few, many, steps=MANY - FEW)
        ours += calls
        plain += [seconds / (MANY - FEW) for seconds in pairs]
        for number, peer in enumerate(near):
            steps = difference_quotients(others[2 * number], others[2 * number + 1], steps=PEER_MANY - PEER_FEW)
            beside.append(compare(NAME, measured=calls, baseline=peer.name, baselines=steps, unit="µs"))
    baseline = "two fsynced appends of 200 bytes"
    return [compare(NAME, measured=ours, baseline=baseline, baselines=plain, unit="µs", target=TARGET), *beside]


def _actions(app: App, root: Path, peers: Sequence[Subject]) -> list[Action]:
    actions: list[Action] = [
        partial(run_once, app, CALLS, str(FEW)),
        partial(run_once, app, CALLS, str(MANY)),
        partial(_pairs, root / "appended", MANY - FEW),
    ]
    for peer in peers:
        actions += [partial(peer.record, PEER_FEW), partial(peer.record, PEER_MANY)]
    return actions


def _pairs(path: Path, count: int) -> None:
    """Append and fsync twice, `count` times, on the journal's file system."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        for _ in range(2 * count):
            os.write(descriptor, LINE)
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
