"""LangGraph on its SQLite saver: tasks of an entrypoint, and nodes of a graph. Runs in the peers' environment.

    python -m tests.benchmarks.peers.langgraph_steps DATABASE

The saver opens SQLite with journal_mode=WAL and leaves `synchronous` as the library was built (FULL here: an fsync at every commit).
What is written when is LangGraph's `durability`:

    task   a task's result is handed to a thread that writes it, in `sync` as in `async`; the next task does not wait. `exit`: not
           written before the end.
    node   every node ends with a checkpoint. `sync`: the next one waits for it. `async`: it does not. `exit`: written at the end.
"""

from __future__ import annotations

import sys
import time
import uuid
from typing import Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph


class Stop(Exception):
    """Ends an invocation after its last task, so that it can be invoked again and again."""


@task
def clock() -> float:
    """What one of our recorded calls does."""
    return time.time()


class Counted(TypedDict):
    """State of the graph: how many rounds are left, and the last reading."""

    left: int
    last: float


def open_programs(saver: SqliteSaver) -> tuple[Any, Any]:
    """The entrypoint, given `{count, stop}`; and the graph, given a `Counted`."""

    @entrypoint(checkpointer=saver)
    def calls(given: dict[str, Any]) -> float:
        last = 0.0
        for _ in range(given["count"]):
            last = clock().result()
        if given["stop"]:
            raise Stop
        return last

    def node(state: Counted) -> Counted:
        return {"left": state["left"] - 1, "last": time.time()}

    graph = StateGraph(Counted)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    graph.add_conditional_edges("node", lambda state: "node" if state["left"] else END)
    return calls, graph.compile(checkpointer=saver)


class Tasks:
    """What can be asked for."""

    def __init__(self, saver: SqliteSaver) -> None:
        self._calls, self._graph = open_programs(saver)

    def record(self, mode: str, steps: int, kind: str) -> dict[str, object]:
        """A new thread of so many tasks or nodes, to its end."""
        if kind == "task":
            self._calls.invoke({"count": steps, "stop": False}, _config(uuid.uuid4().hex), durability=mode)
        else:
            config = {**_config(uuid.uuid4().hex), "recursion_limit": steps + 10}
            self._graph.invoke({"left": steps, "last": 0.0}, config, durability=mode)
        return {}

    def prepare(self, workflow: str, mode: str, steps: int, kind: str) -> dict[str, object]:
        """A thread that completed so many tasks and failed before its end. Nodes replay nothing: only the last state is loaded."""
        assert kind == "task", kind
        self._until_stopped({"count": steps, "stop": True}, workflow, mode)
        return {}

    def replay(self, workflow: str, mode: str, kind: str) -> dict[str, object]:
        """Invoke it again. `seconds`: of the whole invocation."""
        assert kind == "task", kind
        begun = time.perf_counter()
        self._until_stopped(None, workflow, mode)
        return {"seconds": time.perf_counter() - begun}

    def _until_stopped(self, given: dict[str, Any] | None, workflow: str, mode: str) -> None:
        try:
            self._calls.invoke(given, _config(workflow), durability=mode)
        except Stop:
            return
        raise AssertionError(f"thread {workflow} came to its end")


def _config(thread: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread}}


if __name__ == "__main__":
    from tests.benchmarks.peers.service import serve

    with SqliteSaver.from_conn_string(sys.argv[1]) as opened:
        tasks = Tasks(opened)
        serve({"record": tasks.record, "prepare": tasks.prepare, "replay": tasks.replay})
