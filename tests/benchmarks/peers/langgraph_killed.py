"""A LangGraph thread with an effect in each task or node, begun or taken up again, to its end, with durability `sync`.

For `tests.benchmarks.lives`, in the peers' environment.
"""

from __future__ import annotations

from typing import Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph

from tests.benchmarks.ledger import Reporter

reporters: list[Reporter] = []


@task
def effect(step: int) -> None:
    """One line in the ledger."""
    reporters[0].report(step)


class Counted(TypedDict):
    """State of the graph."""

    step: int
    count: int


def tasks(saver: SqliteSaver) -> Any:
    """An entrypoint that waits for one task after the other."""

    @entrypoint(checkpointer=saver)
    def effects(given: Counted) -> int:
        for step in range(given["count"]):
            effect(step).result()
        return given["count"]

    return effects


def nodes(saver: SqliteSaver) -> Any:
    """A graph whose one node is left `count` times."""

    def node(state: Counted) -> Counted:
        reporters[0].report(state["step"])
        return {**state, "step": state["step"] + 1}

    graph = StateGraph(Counted)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    graph.add_conditional_edges("node", lambda state: "node" if state["step"] < state["count"] else END)
    return graph.compile(checkpointer=saver)


def main(database: str, ledger: str, count: str, kind: str) -> None:
    """Begin, or go on where the saver says. (`next` of a state leaves out a node whose result is there and not yet applied.)"""
    reporters.append(Reporter(ledger))
    config: dict[str, Any] = {"configurable": {"thread_id": "killed"}, "recursion_limit": int(count) + 10}
    with SqliteSaver.from_conn_string(database) as saver:
        program = (tasks if kind == "task" else nodes)(saver)
        begun = program.get_state(config).created_at is not None
        program.invoke(None if begun else {"step": 0, "count": int(count)}, config, durability="sync")
