"""DBOS on SQLite: steps recorded in a workflow, and replayed by resuming it. Runs in the peers' environment.

    python -m tests.benchmarks.peers.dbos_steps DATABASE MODE

DBOS has no durability setting of its own: a step has returned when its transaction is committed. What a commit means is SQLite's
to say, and MODE sets it on every connection:

    default   journal_mode=DELETE, synchronous=FULL: what DBOS opens. On the disk at every commit, by four syncs.
    full      journal_mode=WAL, synchronous=FULL: on the disk at every commit, by one fsync.
    normal    journal_mode=WAL, synchronous=NORMAL: no fsync at a commit; a power cut loses the last ones, a killed process none.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import sqlalchemy
from dbos import DBOS, DBOSConfig, SetWorkflowID

PRAGMAS = {
    "default": (),
    "full": ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL"),
    "normal": ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=NORMAL"),
}
RESUMED_S = 60.0


class Held:
    """Where the workflow stands after its last step, so that it can be cancelled there and resumed again and again."""

    def __init__(self) -> None:
        self.reached, self.go = threading.Event(), threading.Event()
        self.hold = False
        self.spent_s = 0.0


held = Held()


@DBOS.step()
def clock() -> float:
    """What one of our recorded calls does."""
    return time.time()


@DBOS.workflow()
def calls(count: int) -> float:
    """`count` steps; then, when it is to be held, one more that a cancelled workflow does not get to do."""
    begun = time.perf_counter()
    for _ in range(count):
        last = clock()
    held.spent_s = time.perf_counter() - begun
    if held.hold:
        held.reached.set()
        held.go.wait()
        return clock()
    return last


def launch(database: str, mode: str) -> None:
    """Start DBOS as its documentation says, with the pragmas of MODE on every connection."""
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": f"sqlite:///{database}",
        "log_level": "CRITICAL",
        "application_version": "1",
        "executor_id": "local",
    }

    @sqlalchemy.event.listens_for(sqlalchemy.Engine, "connect")
    def settings(connection: Any, _: Any) -> None:
        for pragma in PRAGMAS[mode]:
            connection.execute(pragma).close()

    DBOS(config=config)
    DBOS.launch()


def record(steps: int) -> dict[str, object]:
    """A new workflow of so many steps, to its end."""
    held.hold = False
    calls(steps)
    return {}


def prepare(workflow: str, steps: int) -> dict[str, object]:
    """A workflow that completed so many steps and was cancelled before its end."""
    held.hold = True
    with SetWorkflowID(workflow):
        handle = DBOS.start_workflow(calls, steps)
    _cancel(workflow, handle)
    return {}


def replay(workflow: str) -> dict[str, object]:
    """Resume it and cancel it at the same place. `seconds`: of the body, first step to last; not of the queue before it."""
    held.hold = True
    handle = DBOS.resume_workflow(workflow)
    _cancel(workflow, handle)
    return {"seconds": held.spent_s}


def _cancel(workflow: str, handle: Any) -> None:
    if not held.reached.wait(RESUMED_S):
        raise TimeoutError(f"workflow {workflow} did not come to its last step")
    held.reached.clear()
    DBOS.cancel_workflow(workflow)
    held.go.set()
    try:
        handle.get_result()
    except Exception as error:
        if "Cancelled" not in type(error).__name__:
            raise
    held.go.clear()


if __name__ == "__main__":
    from tests.benchmarks.peers.service import serve

    launch(sys.argv[1], sys.argv[2])
    serve({"record": record, "prepare": prepare, "replay": replay})
