"""What the record of a call takes beyond its arguments and its result."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from statistics import mean

import anyio

from engine.app import App
from engine.run.status import Status
from tests.benchmarks.figures import Figure, Target, alone
from tests.benchmarks.house import MIXED

TARGET = Target("median", 400)
ROUNDS = 50
"""Of the package, each with one call of four kinds."""


def measure(app: App) -> list[Figure]:
    """One run with calls of several functions, in phases: all its lines from the first call to the last outcome."""
    view = anyio.run(partial(app.run, MIXED, str(ROUNDS), workspace=app.settings.home))
    assert view.status is Status.COMPLETED, view
    raw = (app.runs.open(view.run_id).folder / "journal.jsonl").read_bytes()
    lines = [line for line in raw.splitlines(keepends=True) if _of_a_call(line)]
    each = beyond_values(lines)
    assert len(each) == 4 * ROUNDS, len(each)
    return [
        alone("journal, a call beyond its values", measured=[mean(each)], unit="B", target=TARGET),
        alone("journal, the call that takes most", measured=[max(each)], unit="B", target=TARGET),
    ]


def beyond_values(lines: Sequence[bytes]) -> list[int]:
    """For each call, in the order of their beginnings: the bytes of all its lines, newlines included, less those of its values.

    A value is what `args` and `result` hold, as compact JSON.
    """
    taken: dict[int, int] = {}
    for line in lines:
        event = json.loads(line)
        values = sum(len(_compact(event[name])) for name in ("args", "result") if name in event)
        call = event["s"] if event["e"] == "call.started" else event["of"]
        taken[call] = taken.get(call, 0) + len(line) - values
    return list(taken.values())


def _of_a_call(line: bytes) -> bool:
    return str(json.loads(line)["e"]).startswith("call.")


def _compact(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
