"""What a person can do about a run as it stands: exact commands, the likeliest first. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from engine.run.status import Status
from engine.run.view import CallView, RunView, calls_of

CALLS_NAMED = 3
"""Calls that get a command of their own, at most."""


class Step(NamedTuple):
    """A command line and what it does; both complete."""

    command: str
    does: str

    def __str__(self) -> str:
        return f"`{self.command}` {self.does}."


def next_steps(view: RunView) -> list[Step]:
    """The steps that make sense now; none for a completed run."""
    return list(_steps(view, f"cloche runs resume {view.run_id}"))


def _steps(view: RunView, resume: str) -> Iterator[Step]:
    match view.status, view.reason:
        case Status.COMPLETED, _:
            return
        case Status.CANCELLED, _:
            yield Step(f"cloche workflows run {view.workflow_id}", "starts a new run; cancelling is final")
        case Status.RUNNING, _:
            yield Step(f"cloche runs watch {view.run_id}", "follows it")
        case Status.WAITING, _:
            yield from _answers(view)
            yield Step(f"cloche runs watch {view.run_id}", "follows it")
        case Status.CAPPED, _:
            yield Step(f"{resume} --raise-cap {2 * view.cap}", f"goes on to {2 * view.cap} executions")
        case _, "unknown_outcome":
            yield from _decisions(view, resume)
        case _, "diverged":
            yield Step(f"{resume} --accept-divergence", "executes the new call instead of taking the record")
        case _, "program" | "message":
            yield from _after_a_failure(view, resume)
        case _:
            yield Step(resume, "goes on where it stopped")


def _answers(view: RunView) -> Iterator[Step]:
    for call in _standing(view, "waiting")[:CALLS_NAMED]:
        yield Step(f"cloche runs answer {view.run_id} {call.seq} --value JSON", "answers the question and goes on")


def _decisions(view: RunView, resume: str) -> Iterator[Step]:
    open_ = [call for call in _standing(view, "unknown") if not call.waits_for and not _is_decided(call)]
    for call in open_[:CALLS_NAMED]:
        decide = f"cloche runs decide {view.run_id} {call.seq}"
        yield Step(
            f"{decide} rerun|fail|value", f"says what became of {call.fn}(); inspect first what it may have done"
        )
    if open_:
        yield Step(f"{resume} --on-unknown rerun", "executes every such call again")
    else:
        yield Step(resume, "goes on as it was decided")


def _is_decided(call: CallView) -> bool:
    """True when somebody decided about its newest attempt; one decision covers one."""
    return any(decision.of == call.seq for decision in call.decisions)


def _after_a_failure(view: RunView, resume: str) -> Iterator[Step]:
    newest = len(view.generations)
    failed = [call for call in calls_of(view.calls) if call.ended_generation == newest]
    if not failed:
        yield Step(resume, "replays the calls and runs the same code again; a mended package needs a new run")
        return
    yield Step(resume, f"executes {failed[0].fn}() again and goes on")
    fork = f"cloche runs fork {view.run_id} --from {failed[0].seq} --revision R"
    yield Step(fork, "goes on from there with a mended revision, in a new run")


def _standing(view: RunView, status: str) -> list[CallView]:
    return [call for call in calls_of(view.calls) if call.status == status]
