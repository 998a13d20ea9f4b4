"""Work in a thread is waited for whatever cancels the task, and done once whoever asks."""

from __future__ import annotations

import asyncio
import threading

import pytest

from engine.sandbox.unbroken import Once, carried_out

pytestmark = pytest.mark.anyio


class Gate:
    """Work that says when it is begun and goes on when it is let."""

    def __init__(self) -> None:
        self.begun, self.let = threading.Event(), threading.Event()
        self.times = 0

    def __call__(self) -> int:
        self.times += 1
        self.begun.set()
        assert self.let.wait(60)
        return self.times


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def begun(gate: Gate) -> None:
    assert await asyncio.to_thread(gate.begun.wait, 60)


async def test_a_cancelled_task_waits_for_its_work_gets_its_value_and_is_cancelled_at_its_next_await() -> None:
    gate = Gate()
    got: list[object] = []

    async def task() -> None:
        got.append(await carried_out(Once(gate)))
        got.append("recorded")
        await asyncio.sleep(0)
        got.append("never")

    waiting = asyncio.create_task(task())
    await begun(gate)
    for _ in range(3):
        waiting.cancel()
        await asyncio.sleep(0.01)
    assert not waiting.done()
    gate.let.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert got == [1, "recorded"]
    assert (gate.times, waiting.cancelling()) == (1, 3)


async def test_a_task_that_ends_right_after_its_work_is_cancelled_all_the_same() -> None:
    gate = Gate()
    waiting = asyncio.create_task(carried_out(Once(gate)))
    await begun(gate)
    waiting.cancel()
    await asyncio.sleep(0)
    gate.let.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert gate.times == 1


async def test_clean_up_after_a_cancellation_is_not_cancelled_by_another_one() -> None:
    gate = Gate()
    got: list[object] = []

    async def task() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            got.append(await carried_out(Once(gate)))
            await asyncio.sleep(0)
            got.append("recorded")
            raise

    waiting = asyncio.create_task(task())
    await asyncio.sleep(0)
    waiting.cancel()
    await begun(gate)
    waiting.cancel()
    await asyncio.sleep(0)
    gate.let.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert got == [1, "recorded"]


async def test_two_that_ask_at_once_get_the_outcome_of_one() -> None:
    gate = Gate()
    once = Once(gate)
    both = asyncio.gather(carried_out(once), carried_out(once))
    await begun(gate)
    gate.let.set()
    assert await both == [1, 1]
    assert await carried_out(once) == 1


async def test_an_error_of_the_work_is_told_to_everybody_who_asks() -> None:
    once = Once(lambda: 1 // 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            await carried_out(once)
