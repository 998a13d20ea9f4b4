"""What the ledger, the journal and a run's folder must say of each other; and the seed of random moments."""

from __future__ import annotations

import os
import secrets
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from engine.run.calls import CallKey
from engine.run.events import CallCompleted
from engine.run.history import History, Record
from tests.helpers.ledger import Execution


def check_executions(history: History, executions: list[Execution]) -> None:
    """Compare what a journal says with what really happened."""
    really: dict[CallKey, list[int]] = defaultdict(list)
    keys: dict[str, CallKey] = {}
    for execution in executions:
        really[execution.key].append(execution.generation)
        assert keys.setdefault(execution.idempotency_key, execution.key) == execution.key
    assert len(keys) == len(really), "one call had two idempotency keys"
    recorded: dict[CallKey, list[Record]] = defaultdict(list)
    for record in history.records.values():
        recorded[record.key].append(record)
    for key, generations in really.items():
        records = recorded[key]
        for generation in set(generations):
            begun = sum(record.generation == generation for record in records)
            assert generations.count(generation) <= begun, f"{key} ran without a record that it began"
        completed = [record for record in records if isinstance(record.outcome, CallCompleted)]
        assert len(completed) <= 1, f"{key} completed twice"
        for record in completed:
            later = [generation for generation in generations if generation > record.generation]
            assert later == [], f"{key} was completed and ran again in generation {later}"
    for record in history.records.values():
        if isinstance(record.outcome, CallCompleted) and not record.settled:
            assert record.generation in really[record.key], f"{record.key} is completed and never ran"


def chosen_seed() -> int:
    """The seed of random moments: CLOCHE_CHAOS_SEED, else one drawn now. Printed, so that pytest shows it with a failure."""
    seed = int(os.environ.get("CLOCHE_CHAOS_SEED") or secrets.randbelow(2**32))
    print(f"seed {seed}")
    return seed


def leftovers(folder: Path) -> Iterator[str]:
    """Names of half-written files that nobody removed; but a request to cancel may be in the making at any time."""
    for path in folder.rglob(".*"):
        if not path.name.startswith(".cancel."):
            yield str(path.relative_to(folder))
