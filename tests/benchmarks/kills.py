"""Fifty SIGKILLs each: how many completed calls are executed again by Cloche, and how many by its peers.

Whoever executes a workflow is a process that is killed at a random moment and followed by another, until the workflow is done. Each
call has one effect, a line in a ledger that another process keeps, and the ledger alone is counted.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from engine.app import App
from engine.run.folder import Run
from tests.benchmarks.figures import Figure, Target, alone
from tests.benchmarks.house import EFFECTS
from tests.benchmarks.ledger import Ledger, Repeats, open_ledger, repeats
from tests.benchmarks.lives import Lives, open_lives
from tests.benchmarks.one_shot import new_run
from tests.benchmarks.peers import process

KILLS, STEPS = 50, 2_000
FURTHEST = 12
"""A life is ended after about so many effects at most, so that the steps last for all lives."""
START_S, MORE_S, ENDED_S = 1.0, 0.005, 120.0
LINE_BYTES = 5
NONE = Target("median", 0)


@dataclass(frozen=True)
class Subject:
    """Whose workflow it is, and the command that begins it or goes on with it."""

    name: str
    argv: list[str]
    ledger: Ledger


@dataclass(frozen=True)
class Survived:
    """What became of one workflow. `kills` are those that met a living process."""

    name: str
    kills: int
    repeats: Repeats


def measure(app: App, *, root: Path, kills: int = KILLS, with_peers: bool = True) -> list[Figure]:
    """All subjects at once, each with its own ledger and its own random moments."""
    with ExitStack() as stack:
        run = new_run(app, app.snapshots.for_revision(*app.catalog.resolve(EFFECTS)), str(STEPS))
        ours = stack.enter_context(open_ledger(root / "cloche"))
        argv = _command(sys.executable, "killed_run", app.settings.home, run.run_id, ours.socket)
        subjects = [Subject("Cloche", argv, ours)]
        if with_peers:
            subjects += [_peer(stack, root, *one) for one in PEERS]
        with ThreadPoolExecutor(len(subjects)) as pool:
            survived = list(pool.map(lambda subject: survive(subject, kills=kills), subjects))
    twice = completed_twice(run)
    assert twice == 0, f"{twice} calls have two completed records"
    return _figures(survived)


PEERS = (
    ("DBOS step", "dbos_killed", ()),
    ("LangGraph task, sync", "langgraph_killed", ("task",)),
    ("LangGraph node, sync", "langgraph_killed", ("node",)),
)


def _peer(stack: ExitStack, root: Path, name: str, module: str, more: Sequence[str]) -> Subject:
    place = root / name.replace(" ", "-").replace(",", "")
    ledger = stack.enter_context(open_ledger(place))
    argv = _command(process.PYTHON, f"peers.{module}", place / "database.sqlite", ledger.socket, str(STEPS), *more)
    return Subject(name, argv, ledger)


def _command(python: str | Path, module: str, *arguments: str | Path) -> list[str]:
    words = (python, "-m", "tests.benchmarks.lives", f"tests.benchmarks.{module}", *arguments)
    return [str(word) for word in words]


def survive(subject: Subject, *, kills: int) -> Survived:
    """Kill it so often, then let it come to its end.

    Raises:
        RuntimeError: it did not come to its end, or lost a step.
    """
    chance, met = random.Random(subject.name), 0
    with open_lives(subject.argv, process.environment()) as lives:
        for number in range(kills):
            lives.begin()
            _wait_for_a_moment(lives, subject, chance, in_start=number % 5 == 0)
            code = lives.kill()
            if code not in (0, -signal.SIGKILL):
                raise RuntimeError(f"{subject.name} ended by itself, with {code}")
            met += code != 0
        lives.begin()
        code = lives.code() if lives.ended(within_s=ENDED_S) else lives.kill()
    executions = subject.ledger.executions()
    if code != 0 or set(executions) != set(range(STEPS)):
        raise RuntimeError(f"{subject.name} ended with {code} after {len(set(executions))} of {STEPS} steps")
    return Survived(subject.name, met, repeats(executions))


def _wait_for_a_moment(lives: Lives, subject: Subject, chance: random.Random, *, in_start: bool) -> None:
    """Either at any time of the start, or after some effects and at any time of the next ones."""
    pause, until = threading.Event(), time.monotonic() + ENDED_S
    if in_start:
        pause.wait(chance.uniform(0, START_S))
        return
    enough = subject.ledger.size + LINE_BYTES * chance.randint(1, FURTHEST)
    while subject.ledger.size < enough and not lives.ended():
        if time.monotonic() > until:
            raise RuntimeError(f"{subject.name} had no effect for {ENDED_S:g} s")
        pause.wait(0.001)
    pause.wait(chance.uniform(0, MORE_S))


def completed_twice(run: Run) -> int:
    """Calls of a run, by key, with more than one completed record."""
    keys: dict[int, str] = {}
    completed: Counter[str] = Counter()
    for line in run.journal_path.read_bytes().splitlines():
        event = json.loads(line)
        if event["e"] == "call.started":
            keys[event["s"]] = json.dumps(event["key"])
        elif event["e"] == "call.completed":
            completed[keys[event["of"]]] += 1
    return sum(count > 1 for count in completed.values())


def _figures(survived: Sequence[Survived]) -> list[Figure]:
    """Ours, judged; and beside it each peer."""
    ours, *peers = survived
    completed = f"completed calls repeated, {ours.kills} kills"
    interrupted = "interrupted calls repeated"
    rows = []
    for name, of, target in ((completed, "completed", NONE), (interrupted, "interrupted", None)):
        count = float(getattr(ours.repeats, of))
        if not peers:
            rows.append(alone(name, measured=[count], unit="calls", target=target))
        for peer in peers:
            beside = float(getattr(peer.repeats, of))
            shown = f"{peer.name}, {peer.kills} kills"
            rows.append(alone(name, measured=[count], unit="calls", target=target, baseline=shown, beside=beside))
    return rows
