"""Executing, replaying, verifying and showing a run take steps in proportion to its calls.

Counted in the interpreter's instructions, so that no machine is too slow.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import engine
from engine.run.folder import Run
from engine.run.projection import view_of
from engine.run.status import Status
from engine.run.verify import Subject, verify
from engine.sandbox.outcome import Cause
from tests.helpers.cells import Answers, Die, Program, ScriptedCells, Step, Still, ask, begin
from tests.helpers.runs import Bench

Playing = Generator[Step, Any, Any]

OURS = str(Path(engine.__file__).parent)
FEW, TIMES = 70, 4
ROOM = 1.25
"""Four times the calls may take a quarter more than four times the steps."""


def steps(work: Callable[..., Any], *args: Any) -> int:
    """Instructions that code of `engine` executes in `work(*args)`."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if not frame.f_code.co_filename.startswith(OURS):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work(*args)
    finally:
        sys.settrace(before)
    return count


def one_by_one(calls: int, *, dies: bool) -> Program:
    def program() -> Playing:
        for i in range(calls):
            yield ask("emit", event=i)
        if dies:
            yield Die(Cause.SUPERVISOR_LOST)

    return program


def at_once(calls: int, *, dies: bool) -> Program:
    """Sixteen lines of calls beside each other."""

    def program() -> Playing:
        scopes = {}
        for i in range(calls):
            scope = f"/parallel@workflow.main[1.{i % 16 + 1}]"
            number = yield begin("emit", scope=scope, event=i)
            scopes[number] = scope
            if len(scopes) == 16:
                number, _ = yield Still()
                del scopes[number]
        while scopes:
            number, _ = yield Still()
            del scopes[number]
        if dies:
            yield Die(Cause.SUPERVISOR_LOST)

    return program


HANDLERS = {"emit": Answers(lambda request: None, instant=True)}


@pytest.mark.parametrize("make", [one_by_one, at_once])
def test_a_replay_a_verification_and_a_view_of_more_calls_take_no_more_for_each(
    make: Callable[..., Program], tmp_path: Path
) -> None:
    taken: dict[str, list[int]] = {"live": [], "replay": [], "view": [], "verify": []}
    bench = Bench(tmp_path)
    for calls in (FEW, FEW * TIMES):
        run = bench.create(run_id=f"20261130T120000Z-{calls:08x}")
        dying, cells = ScriptedCells([make(calls, dies=True)]), ScriptedCells([make(calls, dies=False)])
        taken["live"].append(steps(bench.drive, run, dying, HANDLERS))
        taken["replay"].append(steps(bench.drive, run, cells, HANDLERS))
        assert view_of(run).status is Status.COMPLETED
        taken["view"].append(steps(view_of, run))
        taken["verify"].append(steps(verified, run, cells))
    for name, (few, many) in taken.items():
        assert many < few * TIMES * ROOM, (name, few, many)


def verified(run: Run, cells: ScriptedCells) -> None:
    subject = Subject(run.folder, run.spec.revision, run.spec.snapshot_digest)
    assert asyncio.run(verify(run, subject, cells=cells, deadline_s=60)).holds
