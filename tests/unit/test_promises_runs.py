"""Promises about runs that belong to no single part: what counts, what is durable when, and how values never travel."""

from __future__ import annotations

import ast
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import cloche_guest
import pytest

import engine
from engine.agents import open_handlers
from engine.clock import SystemClock
from engine.run.calls import Effects
from engine.run.payload import public_payload
from engine.run.view import calls_of
from tests.helpers.cells import Answers, ScriptedCells, ask
from tests.helpers.runs import Bench

COUNTED = {"llm": True, "agent": True} | dict.fromkeys(
    ("now", "random", "new_id", "emit", "deliver", "ask", "timer", "read", "grep", "glob", "list"), False
)


def test_model_calls_count_towards_the_cap_and_everything_else_is_free() -> None:
    handlers = open_handlers(clock=SystemClock(), model=None)
    assert {name: handler.counted for name, handler in handlers.items()} == COUNTED


def test_every_function_of_this_version_may_be_executed_again_when_its_outcome_is_unknown() -> None:
    handlers = open_handlers(clock=SystemClock(), model=None)
    assert {handler.effects for handler in handlers.values()} <= {Effects.NONE, Effects.IDEMPOTENT}


def test_a_call_is_synced_before_its_work_and_its_outcome_before_the_reply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path)
    run = bench.create()
    synced: list[int] = []
    real = os.fsync

    def noting(descriptor: int) -> None:
        real(descriptor)
        if Path(f"/proc/self/fd/{descriptor}").readlink() == run.journal_path:
            synced.append(os.fstat(descriptor).st_size)

    def whole_journal_is_synced() -> None:
        assert synced
        assert synced[-1] == run.journal_path.stat().st_size

    def work(_request: object) -> str:
        whole_journal_is_synced()
        assert run.read()[0].lines[-1].event.e == "call.started"
        return "done"

    def program() -> Generator[Any, Any, Any]:
        for i in range(3):
            yield ask("llm", i=i)
            whole_journal_is_synced()
            assert run.read()[0].lines[-1].event.e == "call.completed"

    monkeypatch.setattr(os, "fsync", noting)
    view = bench.drive(run, ScriptedCells([program]), {"llm": Answers(work)})
    assert view.status.value == "completed", view.error


@pytest.mark.parametrize("place", [Path(engine.__path__[0]), Path(cloche_guest.__file__).parents[1]])
def test_no_module_can_rebuild_objects_from_bytes(place: Path) -> None:
    imported = {
        name.partition(".")[0]
        for path in place.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""])
    }
    assert {"json", "os"} <= imported
    assert not imported & {"pickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "yaml"}


def test_people_see_bounded_summaries_of_arguments_and_results(tmp_path: Path) -> None:
    bench = Bench(tmp_path)

    def program() -> Generator[Any, Any, Any]:
        yield ask("llm", prompt="p" * 50_000)

    view = bench.drive(bench.create(), ScriptedCells([program]), {"llm": Answers(lambda _: "r" * 50_000)})
    (call,) = calls_of(view.calls)
    assert call.arguments.startswith('{"prompt":"ppp')
    assert call.result.startswith('"rrr')
    assert len(view.model_dump_json()) < 20_000


def test_the_public_payload_holds_exactly_what_may_leave(tmp_path: Path) -> None:
    bench = Bench(tmp_path)

    def program() -> Generator[Any, Any, Any]:
        return (yield ask("llm", prompt="secret"))

    run = bench.create(task="say it")
    view = bench.drive(run, ScriptedCells([program]), {"llm": Answers(lambda _: "secret")})
    payload = public_payload(run, view)
    told = "status reason task run_id workflow_id revision pins calls calls_made summary return_result"
    assert payload.keys() == set(told.split())
    assert (payload["task"], payload["pins"]) == ("say it", dict(run.spec.pins))
    told = "scope function n digest status started_at duration_s"
    assert [set(call) for call in payload["calls"]] == [set(told.split())]
