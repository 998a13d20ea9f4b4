"""The peers that calls and replays are measured beside: which process, which mode, which name in the table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.peers.process import Peer, open_peer
from tests.benchmarks.rounds import Told

DBOS_MODES = {"default": "DELETE, FULL", "full": "WAL, FULL", "normal": "WAL, NORMAL"}
"""What dbos_steps.py sets, and how the table calls it: SQLite's journal_mode and synchronous."""
LANGGRAPH_MODES = ("sync", "async", "exit")


@dataclass(frozen=True)
class Subject:
    """One peer in one mode. `replays` False: it keeps nothing to replay, or nothing of an interrupted run."""

    name: str
    peer: Peer
    how: dict[str, str]
    replays: bool

    def record(self, steps: int) -> None:
        """A new workflow of so many steps, to its end."""
        self.peer.ask("record", steps=steps, **self.how)

    def prepare(self, workflow: str, steps: int) -> None:
        """A workflow that stopped after so many completed steps."""
        self.peer.ask("prepare", workflow=workflow, steps=steps, **self.how)

    def replay(self, workflow: str) -> Told:
        """Seconds of its completed steps when it is taken up again."""
        return Told(self.peer.ask("replay", workflow=workflow, **self.how)["seconds"])


@contextmanager
def open_subjects(root: Path) -> Iterator[list[Subject]]:
    """Every peer in every mode, with a database of its own in `root`."""
    root.mkdir()
    with ExitStack() as stack:
        found = [
            Subject(
                f"DBOS step ({shown})",
                stack.enter_context(open_peer("dbos_steps", root / f"dbos-{mode}.sqlite", mode)),
                {},
                replays=True,
            )
            for mode, shown in DBOS_MODES.items()
        ]
        langgraph = stack.enter_context(open_peer("langgraph_steps", root / "langgraph.sqlite"))
        for kind in ("task", "node"):
            for mode in LANGGRAPH_MODES:
                how = {"kind": kind, "mode": mode}
                kept = kind == "task" and mode != "exit"
                found.append(Subject(f"LangGraph {kind} ({mode})", langgraph, how, replays=kept))
        yield found
