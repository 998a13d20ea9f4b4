"""A DBOS workflow with an effect in each step, begun or recovered, to its end.

For `tests.benchmarks.lives`, in the peers' environment.
"""

from __future__ import annotations

from dbos import DBOS, SetWorkflowID

from tests.benchmarks.ledger import Reporter
from tests.benchmarks.peers.dbos_steps import launch

WORKFLOW = "killed"
reporters: list[Reporter] = []


@DBOS.step()
def effect(step: int) -> None:
    """One line in the ledger."""
    reporters[0].report(step)


@DBOS.workflow(max_recovery_attempts=1_000)
def effects(count: int) -> None:
    """One effect after the other."""
    for step in range(count):
        effect(step)


def main(database: str, ledger: str, count: str) -> None:
    """Begin it, unless it was begun before: then the launch recovers it."""
    reporters.append(Reporter(ledger))
    launch(database, "default")
    if DBOS.get_workflow_status(WORKFLOW) is None:
        with SetWorkflowID(WORKFLOW):
            DBOS.start_workflow(effects, int(count))
    DBOS.retrieve_workflow(WORKFLOW).get_result()
