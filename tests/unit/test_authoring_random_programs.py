"""Random programs of branches, pipelines, tasks and failures, answered in a random order: the same order does the same again."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from cloche import CallError, _call, _loop, _scopes, agent_async, llm, parallel, pipeline
from cloche._strands import Deadlock, Pending, Strands, Waiter
from cloche_guest.wire import SCOPE

Thunk = Callable[[], Any]


class Asked(Pending):
    """A call; `value` is its answer, or what it raises."""

    __slots__ = ("value",)

    value: Any

    def result(self) -> Any:
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


class Tracing:
    """A backend that answers any of the unanswered calls, fails some, and notes everything that happens in `trace`."""

    def __init__(self, seed: int) -> None:
        self.strands = Strands(self)
        self.trace: list[tuple[Any, ...]] = []
        self.open: dict[int, Asked] = {}
        self._random = random.Random(seed)
        self._number = 0
        self._passed = 0.0

    def call(self, fn: str, arguments: dict[str, Any], *, label: str, site: str, phase: list[str]) -> Any:
        pending = self.begin(fn, arguments, label=label, site=site, phase=phase)
        self.strands.wait(pending)
        return pending.result()

    def begin(
        self,
        fn: str,
        arguments: dict[str, Any],
        *,
        label: str,
        site: str,
        phase: list[str],
        waiter: Waiter | None = None,
    ) -> Pending:
        scope = _scopes.current()
        self._number += 1
        self.open[self._number] = asked = Asked(self._number, waiter or self.strands.current)
        self.trace.append(("call", scope.path, fn, scope.count(fn), json.dumps(arguments)))
        return asked

    def drop(self, pending: Pending) -> None:
        del self.open[pending.number]
        self.trace.append(("drop", pending.number))

    def take(self) -> Pending:
        if not self.open:
            raise Deadlock
        asked = self.open.pop(self._random.choice(list(self.open)))
        asked.answered = True
        asked.value = CallError("Failed", "by chance") if self._random.random() < 0.08 else f"answer {asked.number}"
        self._passed += 0.5
        self.trace.append(("reply", asked.number))
        return asked

    def monotonic(self) -> float:
        return self._passed


def program(chance: random.Random, depth: int) -> Thunk:
    """A program of at most that many levels."""
    parts = [program(chance, depth - 1) for _ in range(chance.randint(1, 4))] if depth else []
    kinds = [in_branches, collecting, in_a_pipeline, one_after_the_other, recovering, in_tasks]
    return chance.choice(kinds)(parts) if parts else lambda: llm("x")


def in_branches(parts: list[Thunk]) -> Thunk:
    return lambda: parallel(parts)


def collecting(parts: list[Thunk]) -> Thunk:
    return lambda: [type(one).__name__ for one in parallel(parts, fail_fast=False)]


def in_a_pipeline(parts: list[Thunk]) -> Thunk:
    return lambda: pipeline(parts, lambda part: part(), lambda _value: llm("y"))


def one_after_the_other(parts: list[Thunk]) -> Thunk:
    return lambda: [part() for part in parts]


def recovering(parts: list[Thunk]) -> Thunk:
    def recover() -> Any:
        try:
            return parts[0]()
        except CallError:
            return llm("recover")
        finally:
            llm("finally")

    return recover


def in_tasks(parts: list[Thunk]) -> Thunk:
    async def one(i: int) -> Any:
        await asyncio.sleep(i + 1)
        try:
            async with asyncio.timeout(3):
                await agent_async("in time?")
        except TimeoutError:
            pass
        return parts[i]() if i % 2 else await agent_async("z")

    async def main() -> None:
        tasks = {asyncio.create_task(one(i)) for i in range(len(parts))}
        _, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        async with asyncio.TaskGroup() as group:
            for task in pending:
                group.create_task(asyncio.wait_for(task, 2))

    # A coroutine may call code that does this, and asyncio runs no loop inside another.
    return lambda: llm("inside") if asyncio._get_running_loop() else asyncio.run(main())


@contextmanager
def answering(backend: Tracing) -> Iterator[None]:
    before, scopes, take_back = _call.install(backend), _scopes.begin(), _loop.install()
    try:
        yield
    finally:
        take_back()
        _scopes.resume(scopes)
        _call.install(before)


def play(seed: int) -> Tracing:
    """Run the program of that number with answers in the order of that number."""
    backend = Tracing(seed + 1)
    with answering(backend):
        try:
            outcome = repr(program(random.Random(seed), 4)())
        except (CallError, ExceptionGroup, RuntimeError) as error:
            outcome = type(error).__name__
    backend.trace.append(("outcome", outcome))
    return backend


@pytest.mark.parametrize("seed", range(0, 200, 10))
def test_a_random_program_does_the_same_again_and_leaves_neither_calls_nor_strands(seed: int) -> None:
    for number in range(seed, seed + 10):
        first, elsewhere, second = play(number), [object() for _ in range(number)], play(number)
        assert first.trace == second.trace, number
        assert len(elsewhere) == number
        assert first.open == {}
        assert first.strands.room == second.strands.room == 95
        assert all(SCOPE.fullmatch(said[1]) for said in first.trace if said[0] == "call")


def left_over(spacing: int) -> Tracing:
    """Ends with thirty tasks left, whose numbers are so far apart."""
    backend = Tracing(0)

    async def main() -> None:
        kept = []
        for i in range(30):
            kept.append(asyncio.create_task(agent_async(str(i))))
            for _ in range(spacing):
                hash(asyncio.get_running_loop().create_future())
        await asyncio.sleep(0)

    with answering(backend):
        asyncio.run(main())
    return backend


@pytest.mark.parametrize("spacing", [15, 31])
def test_tasks_that_are_left_do_the_same_whatever_tasks_the_process_had_before(spacing: int) -> None:
    traces = []
    for earlier in (0, 3, 40, 5000, 1):
        crowd(earlier)
        traces.append(left_over(spacing).trace)
    assert all(trace == traces[0] for trace in traces)
    assert [said[1] for said in traces[0] if said[0] == "drop"] == list(range(1, 31))


def crowd(count: int) -> None:
    """Have asyncio remember so many tasks at once, and forget them."""

    async def main() -> None:
        await asyncio.gather(*(asyncio.sleep(0) for _ in range(count)))

    with answering(Tracing(0)):
        asyncio.run(main())
