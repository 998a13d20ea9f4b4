"""Branches, pipelines and asyncio tasks under `cloche.testing.script`: the order, clock and scopes of a run, without one."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

import pytest
from cloche import CallError, agent, agent_async, ask, llm, now, parallel, pipeline
from cloche.testing import NOW, UnscriptedCall, UnusedReplies, script

DEP = """
from cloche import llm, parallel
def dep(x):
    return parallel([lambda: llm(x)])[0]
"""
DEMO = """
import asyncio
from cloche import agent_async, ask, llm, parallel, pipeline
from workflows.dep.workflow import dep
def demo():
    parallel([lambda: llm("a"), lambda: dep("b")])
    async def main():
        return await asyncio.gather(agent_async("c"), agent_async("d"))
    asyncio.run(main())
    dep("e")
    pipeline(["f", "g"], llm, lambda text: llm(text + "!"))
    parallel([lambda: parallel([lambda: llm("h")])])
"""


@pytest.fixture
def demo() -> Iterator[Any]:
    """The package's module, imported under the names that a cell would give it."""
    for name, source in (("dep", DEP), ("demo", DEMO)):
        made = ModuleType(f"workflows.{name}.workflow")
        sys.modules[made.__name__] = made
        exec(compile(source, f"{name}.py", "exec"), made.__dict__)
    yield sys.modules["workflows.demo.workflow"]
    for name in ("dep", "demo"):
        del sys.modules[f"workflows.{name}.workflow"]


def test_calls_get_their_answers_in_the_order_in_which_they_were_made() -> None:
    seen: list[str] = []

    def branch(name: str) -> str:
        seen.append(llm(name))
        seen.append(llm(f"{name}2"))
        return name

    with script(llm=["A", "B", "A2", "B2"]) as calls:
        assert parallel([lambda: branch("a"), lambda: branch("b")]) == ["a", "b"]
    assert seen == ["A", "B", "A2", "B2"]
    assert [call.arguments["prompt"] for call in calls] == ["a", "b", "a2", "b2"]


def test_scopes_are_those_of_a_run(demo: Any) -> None:
    with script(llm=[*"12345678"], agent=["x", "y"]) as calls:
        demo.demo()
    scopes = {call.arguments["prompt"]: call.scope for call in calls}
    task = "/task@workflow.demo[1]/task@workflow.demo._locals_.main"
    assert scopes == {
        "a": "/parallel@workflow.demo[1.1]",
        "b": "/parallel@workflow.demo[1.2]/dep[1]/parallel@workflow.dep[1.1]",
        "c": f"{task}[1]",
        "d": f"{task}[2]",
        "e": "/dep[1]/parallel@workflow.dep[1.1]",
        "f": "/pipeline@workflow.demo[1.1]",
        "g": "/pipeline@workflow.demo[1.2]",
        "4!": "/pipeline@workflow.demo[1.1]",
        "5!": "/pipeline@workflow.demo[1.2]",
        "h": "/parallel@workflow.demo[2.1]/parallel@workflow.demo._locals_._lambda_[1.1]",
    }


def test_timers_take_no_time_and_move_the_scripts_clock() -> None:
    async def main() -> list[Any]:
        begun = asyncio.get_running_loop().time()
        await asyncio.sleep(3600)
        try:
            async with asyncio.timeout(10):
                await asyncio.sleep(20)
        except TimeoutError:
            passed = asyncio.get_running_loop().time() - begun
            return [passed, now()]
        return []

    with script() as calls:
        assert asyncio.run(main()) == [3610, NOW + timedelta(seconds=3610)]
    assert [call.function for call in calls] == ["now"]


def test_timers_are_over_in_the_order_in_which_they_are_due_after_all_calls() -> None:
    async def named(name: str, delay_s: float) -> str:
        await asyncio.sleep(delay_s)
        return name

    async def main() -> list[str]:
        waiting = [agent_async("call"), named("late", 2), named("early", 1), named("early too", 1)]
        return [await one for one in asyncio.as_completed(waiting)]

    with script(agent=["answer"]):
        assert asyncio.run(main()) == ["answer", "early", "early too", "late"]


def test_a_call_takes_its_reply_when_it_is_made_even_if_nobody_waits_for_it_in_the_end() -> None:
    with script(llm=[ValueError("no"), "never seen"]) as calls, pytest.raises(CallError, match="ValueError: no"):
        parallel([lambda: llm("fails"), lambda: llm("is stopped")])
    assert len(calls) == 2
    with pytest.raises(UnusedReplies), script(llm=["one"]):
        parallel([])


def test_collecting_gives_exceptions_in_place() -> None:
    with script(llm=["a", ValueError("no"), "c"]):
        first, failed, third = parallel([lambda: llm("1"), lambda: llm("2"), lambda: llm("3")], fail_fast=False)
    assert (first, third) == ("a", "c")
    assert isinstance(failed, CallError)


def test_a_pipeline_gives_the_last_stages_values_in_the_order_of_the_items() -> None:
    with script(llm=["1", "2", "3"]):
        assert pipeline(["a", "b", "c"], llm, int, lambda number: number * 10) == [10, 20, 30]
    with script():
        assert pipeline([1, 2]) == [1, 2]


def test_a_missing_reply_in_a_branch_is_a_mistake_of_the_test() -> None:
    with pytest.raises(UnscriptedCall, match=r"agent\(\) was called for the 2. time"), script(agent=["one"]):
        parallel([lambda: agent("x"), lambda: agent("y")], fail_fast=False)


def test_what_can_never_go_on_says_so() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with script(), pytest.raises(RuntimeError, match="no call is unanswered"):
        asyncio.run(main())


def test_a_question_is_answered_from_the_script_and_must_fit_its_schema() -> None:
    schema = {"type": "object", "properties": {"go": {"type": "boolean"}}, "required": ["go"]}
    with script(ask=[{"go": True}]) as calls:
        assert ask("Go on?", schema) == {"go": True}
    assert calls[0].arguments == {"question": "Go on?", "schema": schema}
    with pytest.raises(UnscriptedCall, match=r"'go' is missing"), script(ask=[{}]):
        ask("Go on?", schema)
    with pytest.raises(UnscriptedCall, match=r"has no ask=\[…\]"), script():
        ask("Go on?", schema)


def test_loops_are_the_usual_ones_again_after_the_script() -> None:
    async def kind() -> str:
        return type(asyncio.get_running_loop()).__module__

    before = asyncio.get_event_loop_policy()
    with script():
        assert asyncio.run(kind()) == "cloche._loop"
    assert asyncio.get_event_loop_policy() is before
    assert asyncio.run(kind()).startswith("asyncio.")


def test_two_scripts_after_each_other_begin_at_the_same_place() -> None:
    for _ in range(2):
        with script(llm=["x"]) as calls:
            parallel([lambda: llm("a")])
        assert calls[0].scope.endswith("[1.1]")


def test_now_is_the_scripts_time_in_every_branch() -> None:
    moment = datetime(2030, 5, 1, tzinfo=UTC)
    with script(now=moment):
        assert parallel([now, now]) == [moment, moment]


@pytest.mark.parametrize(
    ("use", "error"),
    [
        (lambda: parallel(["x"]), TypeError),  # type: ignore[list-item]
        (lambda: pipeline([1], "x"), TypeError),  # type: ignore[arg-type]
        (lambda: parallel([int] * 4097), ValueError),
        (lambda: pipeline(range(4097), str), ValueError),
    ],
)
def test_what_is_no_branch_is_refused(use: Any, error: type[Exception]) -> None:
    with script(), pytest.raises(error):
        use()
