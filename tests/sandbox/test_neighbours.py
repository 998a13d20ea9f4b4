"""Cells beside each other: what one takes, up to and past its limits, is not another's loss. Causes and outcomes, no times."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from cloche_guest import codec

from engine.errors import CellLost, SandboxError
from engine.sandbox.cell import Cell
from engine.sandbox.docker import Engine
from engine.sandbox.frames import Call, End
from engine.sandbox.outcome import Cause
from engine.sandbox.policy import Runtime
from engine.sandbox.runtimes import expected
from engine.sandbox.service import Sandbox
from tests.helpers.sandbox import Story, make_sandbox, nothing_left, running, snapshot

pytestmark = [pytest.mark.sandbox, pytest.mark.anyio, pytest.mark.both_runtimes]

MIB = 1024 * 1024
MEMORY, TMP, PROCESSES = 192 * MIB, 16 * MIB, 64

TAKE = """
    import threading
    from cloche import llm

    def sample(task):
        held = b"x" * task["memory"]
        with open("/tmp/taken", "wb") as file:
            file.write(bytes(task["tmp"]))
        enough = threading.Event()
        threads = [threading.Thread(target=enough.wait) for _ in range(task["threads"])]
        try:
            for thread in threads:
                thread.start()
            sum(range(5_000_000))
            llm("taken")
        finally:
            enough.set()
        return [len(held), task["tmp"], len(threads)]
"""
# beside what a program holds: the interpreter and the guest, the stacks of its threads
WITHIN = {"memory": MEMORY * 8 // 10 - TMP * 8 // 10 - 18 * MIB, "tmp": TMP * 8 // 10, "threads": PROCESSES * 8 // 10}
PAST: dict[str, dict[str, int]] = {
    "memory": {"memory": MEMORY * 12 // 10, "tmp": 0, "threads": 0},
    "tmp": {"memory": 0, "tmp": TMP * 12 // 10, "threads": 0},
    "threads": {"memory": 0, "tmp": 0, "threads": PROCESSES * 12 // 10},
}

BUSY = """
    from cloche import llm

    def sample(task):
        return [llm(f"question {number}") for number in range(40)]
"""

HOSTILE = {
    "fork bomb": """
        import os
        from cloche import llm

        def sample(task):
            while True:
                try:
                    if os.fork() == 0:
                        while True:
                            try:
                                os.fork()
                            except OSError:
                                pass
                except OSError:
                    llm("taken")
                    while True:
                        pass
    """,
    "output flood": """
        import os
        from cloche import llm

        def sample(task):
            os.write(1, b"x" * 60_000)
            llm("taken")
            while True:
                os.write(1, b"x" * 60_000)
                os.write(2, b"y" * 60_000)
    """,
    "full tmp": """
        import os
        from cloche import llm

        def sample(task):
            told = False
            while True:
                try:
                    for number in range(100_000):
                        with open(f"/tmp/{number}", "wb") as file:
                            file.write(bytes(1 << 20))
                except OSError:
                    if not told:
                        llm("taken")
                        told = True
    """,
}


class Meeting:
    """Cells of one test: whoever says "taken" waits until all have said so or have ended."""

    def __init__(self, expected: int) -> None:
        self._missing = expected
        self._all = anyio.Event()
        self.uids: list[int] = []

    def arrive(self) -> None:
        self._missing -= 1
        if not self._missing:
            self._all.set()

    async def complete(self) -> None:
        await self._all.wait()


async def take_part(
    meeting: Meeting, sandbox: Sandbox, image_id: str, path: Path, task: Any, *, until: anyio.Event | None = None
) -> Story:
    """A run to its end, also one without a last word; with `until`, it is cancelled when that is set."""
    story = Story()
    async with running(sandbox, image_id, path, task=task, deadline_s=90) as cell:
        meeting.uids.append(cell.uid)
        async with anyio.create_task_group() as group:
            if until is not None:
                group.start_soon(_cancel, cell, until)
            with suppress(CellLost):
                await _converse(cell, meeting, story)
            group.cancel_scope.cancel()
        if not story.of(Call):
            meeting.arrive()
        story.end = await cell.finish()
    return story


async def _converse(cell: Cell, meeting: Meeting, story: Story) -> None:
    while not story.of(End):
        frame = await cell.receive()
        story.frames.append(frame)
        if isinstance(frame, Call):
            if frame.number == 1:
                meeting.arrive()
                await meeting.complete()
            await cell.reply_ok(frame.number, codec.encode(f"answer to {frame.args['prompt']}"), at=1.0)


async def _cancel(cell: Cell, until: anyio.Event) -> None:
    await until.wait()
    await cell.cancel("the test is over")


async def together(parts: dict[str, Callable[[], Coroutine[Any, Any, Story]]]) -> dict[str, Story]:
    """All at once; their stories by name."""
    stories: dict[str, Story] = {}

    async def one(name: str) -> None:
        stories[name] = await parts[name]()

    async with anyio.create_task_group() as group:
        for name in parts:
            group.start_soon(one, name)
    return stories


@pytest.fixture
def small(tmp_path: Path, engine: Engine) -> Sandbox:
    return make_sandbox(
        tmp_path / "home", engine, memory_bytes=MEMORY, tmp_bytes=TMP, processes=PROCESSES, cpus=0.8, output_bytes=MIB
    )


@pytest.fixture
def roomy(tmp_path: Path, engine: Engine) -> Sandbox:
    """With memory enough that a fork bomb meets the limit of processes first."""
    return make_sandbox(tmp_path / "home", engine, tmp_bytes=TMP, processes=PROCESSES, cpus=0.8, output_bytes=MIB)


async def test_two_runs_at_four_fifths_of_all_their_limits_both_succeed(
    small: Sandbox, image_id: str, tmp_path: Path
) -> None:
    path, meeting = snapshot(tmp_path / "s", TAKE), Meeting(2)
    with nothing_left(small):
        stories = await together(
            {name: lambda: take_part(meeting, small, image_id, path, WITHIN) for name in ("one", "other")}
        )
    for story in stories.values():
        assert story.value == [WITHIN["memory"], WITHIN["tmp"], WITHIN["threads"]]
        assert story.ended.cause is Cause.EXIT
        peak = story.ended.accounting.peak_memory_bytes
        assert peak is not None
        assert MEMORY * 7 // 10 < peak < MEMORY
    assert len(set(meeting.uids)) == 2, "processes are counted per uid over all cells"


@pytest.mark.runc_only("each limit by itself is tried under both")
async def test_runs_past_one_of_their_limits_fail_alone(small: Sandbox, image_id: str, tmp_path: Path) -> None:
    path, meeting = snapshot(tmp_path / "s", TAKE), Meeting(1 + len(PAST))
    tasks = {"within": WITHIN, **PAST}
    with nothing_left(small):
        stories = await together(
            {
                name: lambda task=task: take_part(meeting, small, image_id, path, task)  # type: ignore[misc]
                for name, task in tasks.items()
            }
        )
    within = stories["within"]
    assert (within.value[0], within.ended.cause) == (WITHIN["memory"], Cause.EXIT)
    assert stories["memory"].ended.cause is Cause.LIMIT_MEMORY
    errors = {name: stories[name].result.error for name in ("tmp", "threads")}
    assert errors["tmp"] is not None
    assert errors["tmp"].message == "[Errno 28] No space left on device"
    assert errors["threads"] is not None
    assert errors["threads"].message == "can't start new thread"
    assert {stories[name].ended.cause for name in errors} == {Cause.EXIT}
    assert len(set(meeting.uids)) == len(tasks)


async def test_a_run_beside_a_fork_bomb_a_flood_and_a_full_tmp_is_answered_and_succeeds(
    roomy: Sandbox, image_id: str, tmp_path: Path, runtime: Runtime
) -> None:
    meeting, done = Meeting(1 + len(HOSTILE)), anyio.Event()

    async def normal() -> Story:
        try:
            return await take_part(meeting, roomy, image_id, snapshot(tmp_path / "normal", BUSY), None)
        finally:
            done.set()

    paths = {name: snapshot(tmp_path / name, body) for name, body in HOSTILE.items()}
    with nothing_left(roomy):
        stories = await together(
            {
                "normal": normal,
                **{
                    name: lambda path=path: take_part(meeting, roomy, image_id, path, None, until=done)  # type: ignore[misc]
                    for name, path in paths.items()
                },
            }
        )
    assert stories["normal"].value == [f"answer to question {number}" for number in range(40)]
    assert stories["normal"].ended.cause is Cause.EXIT
    allowed = {Cause.CANCELLED}
    if expected(runtime, "fork_bomb") == "memory":
        allowed.add(Cause.LIMIT_MEMORY)
    assert {stories[name].ended.cause for name in HOSTILE} <= allowed
    assert len(stories["output flood"].output()) <= 2 * MIB


@pytest.mark.runc_only("16 s; uids, places and refusals are given by the host")
async def test_fifty_starts_at_once_succeed_or_are_refused_by_name_and_leave_nothing(
    tmp_path: Path, engine: Engine, image_id: str
) -> None:
    sandbox = make_sandbox(tmp_path / "home", engine, memory_bytes=64 * MIB, tmp_bytes=MIB)
    path = snapshot(tmp_path / "s", "def sample(task):\n    return task * task\n")
    values: dict[int, int] = {}
    refused: dict[int, str] = {}

    async def start(number: int) -> None:
        try:
            async with running(sandbox, image_id, path, task=number, deadline_s=60) as cell:
                story = Story()
                while not story.of(End):
                    story.frames.append(await cell.receive())
                values[number] = story.value
        except SandboxError as error:
            refused[number] = error.code

    with nothing_left(sandbox):
        async with anyio.create_task_group() as group:
            for number in range(50):
                group.start_soon(start, number)
    assert sorted([*values, *refused]) == list(range(50))
    assert values == {number: number * number for number in values}
    assert set(refused.values()) <= {"no_uid_left", "engine_timeout", "engine_unreachable", "cell_lost"}
    assert values
