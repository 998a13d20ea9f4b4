"""One package in a real cell: what it gives, prints and leaves, and what it cannot upset."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import anyio
import pytest
from cloche_guest import codec

from engine.errors import CellLost
from engine.sandbox.cell import Cell, open_cell
from engine.sandbox.frames import Call, Drop, End, Output, Quiet
from engine.sandbox.jobs import RunJob
from engine.sandbox.outcome import Cause
from engine.sandbox.service import Sandbox
from tests.helpers.resident import forget_peak, resident_bytes
from tests.helpers.sandbox import Story, containers_of, run_package, running, snapshot, tell

pytestmark = [pytest.mark.sandbox, pytest.mark.anyio, pytest.mark.both_runtimes]

MIB = 1024 * 1024


async def test_a_package_returns_its_result_and_the_cell_is_gone(
    sandbox: Sandbox, image_id: str, tmp_path: Path
) -> None:
    body = """
        from cloche import now

        def sample(task):
            print("started", task["name"])
            return {"at": now(), "name": task["name"]}
    """

    def answer(_cell: Cell, call: Call) -> str:
        assert (call.fn, call.scope, call.n) == ("now", "/", 1)
        return "noon"

    story = await run_package(sandbox, image_id, snapshot(tmp_path / "s", body), task={"name": "x"}, answer=answer)
    assert story.value == {"at": "noon", "name": "x"}
    assert story.output() == b"started x\n"
    assert (story.word.cause, story.word.detail) == ("exit", "returned")
    end = story.ended
    assert (end.cause, end.exit, end.left_behind, end.sandbox_failed) == (Cause.EXIT, 0, False, False)
    used = end.accounting
    assert used.start_s > 0
    assert used.run_s > 0
    assert used.teardown_s > 0
    assert used.cpu_s is not None
    assert used.cpu_s > 0
    assert used.peak_memory_bytes is not None
    assert 2 * MIB < used.peak_memory_bytes < 512 * MIB
    assert used.bytes_in > 0
    assert used.bytes_out > 0
    assert containers_of(sandbox) == []


async def test_large_values_cross_in_both_directions(sandbox: Sandbox, image_id: str, tmp_path: Path) -> None:
    body = """
        from cloche import llm

        def sample(task):
            reply = llm(task["text"] * 2)
            return {"got": len(reply), "back": reply}
    """
    text = "äöü€" * 300_000
    asked: list[Any] = []

    def answer(_cell: Cell, call: Call) -> str:
        asked.append(call.args)
        return text * 3

    story = await run_package(
        sandbox, image_id, snapshot(tmp_path / "s", body), task={"text": text}, answer=answer, deadline_s=60
    )
    assert asked[0]["prompt"] == text * 2
    assert story.value == {"got": len(text) * 3, "back": text * 3}


async def test_output_files_are_collected(sandbox: Sandbox, image_id: str, tmp_path: Path) -> None:
    body = """
        from pathlib import Path

        def sample(task):
            out = Path("/tmp/output")
            out.mkdir(exist_ok=True)
            (out / "deep").mkdir()
            (out / "deep" / "a.txt").write_text("a")
            (out / "big.bin").write_bytes(bytes(3_000_000))
            (out / "link").symlink_to("/etc/passwd")
    """
    story = await run_package(sandbox, image_id, snapshot(tmp_path / "s", body))
    assert story.files == {"deep/a.txt": b"a", "big.bin": bytes(3_000_000)}
    assert "link" in str(story.word.usage["skipped"])


async def test_an_exception_of_the_program_is_told_and_is_no_failure_of_the_sandbox(
    sandbox: Sandbox, image_id: str, tmp_path: Path
) -> None:
    story = await run_package(
        sandbox, image_id, snapshot(tmp_path / "s", "def sample(task):\n    raise KeyError('nope')\n")
    )
    assert story.result.error is not None
    assert story.result.error.type == "KeyError"
    assert "workflow.py" in story.result.error.traceback
    assert (story.ended.cause, story.word.detail, story.ended.sandbox_failed) == (Cause.EXIT, "raised", False)


@pytest.mark.parametrize("code", [137, 139, 124])
async def test_a_program_that_exits_with_the_code_of_a_kill_has_exited(
    sandbox: Sandbox, image_id: str, tmp_path: Path, code: int
) -> None:
    body = f"import os\n\n\ndef sample(task):\n    os._exit({code})\n"
    story = await run_package(sandbox, image_id, snapshot(tmp_path / "s", body))
    assert (story.ended.cause, story.ended.exit, story.ended.sandbox_failed) == (Cause.EXIT, code, False)


async def test_bytes_that_are_no_utf_8_come_as_they_are(sandbox: Sandbox, image_id: str, tmp_path: Path) -> None:
    body = r"""
        import os

        def sample(task):
            os.write(1, b"\xff\xfe caf\xe9\n")
            os.write(2, bytes(range(256)))
    """
    story = await run_package(sandbox, image_id, snapshot(tmp_path / "s", body))
    assert story.output() == b"\xff\xfe caf\xe9\n"
    assert story.output("stderr") == bytes(range(256))


async def test_standard_input_is_at_its_end_at_once(sandbox: Sandbox, image_id: str, tmp_path: Path) -> None:
    body = "import sys\n\n\ndef sample(task):\n    return [sys.stdin.read(), sys.stdin.buffer.read()]\n"
    story = await run_package(sandbox, image_id, snapshot(tmp_path / "s", body))
    assert story.value == ["", b""]
    with_input = "def sample(task):\n    return input()\n"
    story = await run_package(sandbox, image_id, snapshot(tmp_path / "s2", with_input))
    assert story.result.error is not None
    assert story.result.error.type == "EOFError"


async def test_a_child_that_holds_stdout_delays_nothing_and_dies(
    sandbox: Sandbox, image_id: str, tmp_path: Path
) -> None:
    body = """
        import os, signal, time

        def sample(task):
            if os.fork() == 0:
                for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                    signal.signal(number, signal.SIG_IGN)
                os.setsid()
                print("child", flush=True)
                time.sleep(1000)
                os._exit(0)
            time.sleep(0.1)
            return "done"
    """
    async with running(sandbox, image_id, snapshot(tmp_path / "s", body)) as cell:
        begun = monotonic()
        story = await tell(cell)
    assert monotonic() - begun < 15  # and not the minute that the cell has
    assert story.value == "done"
    assert story.ended.stragglers == 1
    assert "1 processes were left and killed" in story.ended.notes
    assert containers_of(sandbox) == []


async def test_two_gigabytes_of_output_keep_head_and_tail_and_cost_the_host_little(
    sandbox: Sandbox, image_id: str, tmp_path: Path
) -> None:
    body = """
        import os

        def sample(task):
            os.write(1, b"first line\\n")
            block = b"x" * (1 << 20)
            for _ in range(2048):
                view = memoryview(block)
                while view:
                    view = view[os.write(1, view):]
            os.write(1, b"last line\\n")
            return "alive"
    """
    head, tail, kept, value, word = b"", b"", 0, None, None
    async with running(sandbox, image_id, snapshot(tmp_path / "s", body), deadline_s=120) as cell:
        before = resident_bytes()
        forget_peak()
        while not isinstance(frame := await cell.receive(), End):
            if isinstance(frame, Output):
                head = head or frame.data[:100]
                tail = (tail + frame.data)[-100:]
                kept += len(frame.data)
            elif hasattr(frame, "encoded"):
                value = frame.encoded
        word = frame
        grown = resident_bytes(peak=True) - before
        await cell.finish()
    assert value == "alive"
    assert head.startswith(b"first line\n")
    assert tail.endswith(b"last line\n")
    assert word.usage["stdout_bytes"] == (2 << 30) + 21
    assert kept == sandbox.settings.output_bytes
    assert word.usage["stdout_cut"] == word.usage["stdout_bytes"] - kept
    assert grown < 16 * MIB


async def test_overlapping_calls_may_be_answered_by_an_error(sandbox: Sandbox, image_id: str, tmp_path: Path) -> None:
    body = """
        from cloche import CallError, llm

        def sample(task):
            try:
                llm("a")
            except CallError as error:
                return str(error)
    """
    async with running(sandbox, image_id, snapshot(tmp_path / "s", body)) as cell:
        while not isinstance(await cell.receive(), Call):
            pass
        await cell.reply_error(1, "ModelError", "no \udcff answer", "trace", at=1.0)
        story = await tell(cell)
    assert "no \\udcff answer" in story.value


async def test_a_call_may_be_answered_by_a_stop(sandbox: Sandbox, image_id: str, tmp_path: Path) -> None:
    body = """
        from cloche import llm

        def sample(task):
            try:
                llm("a")
            finally:
                print("this is not reached")
    """
    async with running(sandbox, image_id, snapshot(tmp_path / "s", body)) as cell:
        while not isinstance(await cell.receive(), Call):
            pass
        await cell.reply_stop(1, "capped")
        story = await tell(cell)
    assert (story.word.cause, story.word.detail) == ("exit", "stopped")
    assert story.output() == b""


async def test_two_cells_at_once_have_different_uids_and_do_not_see_each_other(
    sandbox: Sandbox, image_id: str, tmp_path: Path
) -> None:
    body = """
        import os

        def sample(task):
            with open("/proc/self/status") as file:
                (groups,) = (line.split()[1:] for line in file if line.startswith("Groups:"))
            return [os.getuid(), os.getgid(), groups, sorted(p for p in os.listdir("/proc") if p.isdigit())]
    """
    stories: list[Any] = []

    async def one() -> None:
        stories.append((await run_package(sandbox, image_id, snapshot_path)).value)

    snapshot_path = snapshot(tmp_path / "s", body)
    async with running(sandbox, image_id, snapshot_path) as first:
        await one()
        stories.append((await tell(first)).value)
    (uid, gid, groups, processes), (other, *_) = stories
    assert uid != other
    assert uid == gid > 60000
    assert groups == []
    assert len(processes) <= 3


async def test_a_cell_takes_one_job_and_answers_nothing_after_its_last_word(
    sandbox: Sandbox, image_id: str, tmp_path: Path
) -> None:
    package = snapshot(tmp_path / "s", "def sample(task):\n    return 1\n")
    async with running(sandbox, image_id, package) as cell:
        while not isinstance(await cell.receive(), End):
            pass
        with pytest.raises(CellLost):
            await cell.receive()
        first = await cell.finish()
        assert await cell.finish() is first


async def test_the_snapshot_is_read_only_and_of_plain_files(sandbox: Sandbox, image_id: str, tmp_path: Path) -> None:
    body = """
        import os
        from pathlib import Path

        def sample(task):
            here = Path(__file__)
            told = []
            for attempt in (lambda: here.write_text("x"), here.unlink, lambda: (here.parent / "y").write_text("x")):
                try:
                    attempt()
                except OSError as error:
                    told.append(type(error).__name__)
            return [told, oct(here.stat().st_mode & 0o777), oct(here.parent.stat().st_mode & 0o777)]
    """
    package = snapshot(tmp_path / "s", body)
    story = await run_package(sandbox, image_id, package)
    told, file_mode, directory_mode = story.value
    assert len(told) == 3
    assert (file_mode, directory_mode) == ("0o444", "0o555")
    (package / "workflows" / "link").symlink_to("/etc/passwd")
    async with open_cell(sandbox, image_id=image_id, kind="run", deadline_s=5) as cell:
        with pytest.raises(Exception, match="no file and no directory"):
            await cell.deliver(RunJob("sample", codec.encode(None), "00", 5), package)


async def test_many_cells_follow_each_other_and_leave_nothing(sandbox: Sandbox, image_id: str, tmp_path: Path) -> None:
    package = snapshot(tmp_path / "s", "def sample(task):\n    return task\n")
    async with anyio.create_task_group() as group:

        async def one(number: int) -> None:
            assert (await run_package(sandbox, image_id, package, task=number)).value == number

        for number in range(6):
            group.start_soon(one, number)
    assert containers_of(sandbox) == []


async def choosing(cell: Cell, choose: Callable[[list[Call]], Call], answer: Callable[[Call], Any]) -> Story:
    """Read to the end; whenever the program is quiet, answer the call that `choose` picks of those that are unanswered."""
    story, waiting = Story(), dict[int, Call]()
    while True:
        frame = await cell.receive()
        story.frames.append(frame)
        if isinstance(frame, Call):
            waiting[frame.number] = frame
        elif isinstance(frame, Drop):
            del waiting[frame.call]
        elif isinstance(frame, End):
            story.end = await cell.finish()
            return story
        if isinstance(frame, Quiet) or (isinstance(frame, Call) and frame.waits):
            call = waiting.pop(choose(list(waiting.values())).number)
            await cell.reply_ok(call.number, codec.encode(answer(call)), at=1_900_000_000.0 + call.number)


CONCURRENT = """
    import asyncio, datetime, random, secrets, time, uuid
    from cloche import agent_async, llm, parallel, pipeline

    async def work(name):
        return await agent_async(name)

    async def race():
        tasks = {asyncio.create_task(work(f"t{i}"), name=str(i)) for i in range(30)}
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await asyncio.wait(pending)
        return [[task.get_name() for task in done], [task.get_name() for task in pending]]

    def draws():
        return [random.random(), secrets.token_hex(4), str(uuid.uuid4()), str(uuid.uuid1())]

    def clocks():
        moment = datetime.datetime.now(datetime.UTC)
        return [time.time(), moment.timestamp(), str(datetime.date.today()), type(moment) is datetime.datetime]

    def branch(name):
        return [llm(name), clocks(), draws()]

    def sample(task):
        return [
            clocks(), parallel([lambda i=i: branch(f"b{i}") for i in range(3)]), asyncio.run(race()),
            pipeline(range(20), lambda i: llm(str(i)), int), clocks(), draws(),
        ]
"""


async def test_concurrent_code_does_the_same_in_every_cell_when_the_answers_come_in_the_same_order(
    sandbox: Sandbox, image_id: str, tmp_path: Path
) -> None:
    source = snapshot(tmp_path / "s", CONCURRENT)
    values, calls = [], []
    for _ in range(3):
        async with running(sandbox, image_id, source) as cell:
            story = await choosing(cell, lambda waiting: waiting[-1], lambda call: call.args["prompt"])
        values.append(story.value)
        calls.append([(call.scope, call.fn, call.n, call.args) for call in story.of(Call)])
    assert values[0] == values[1] == values[2]
    assert calls[0] == calls[1] == calls[2]
    before, branches, (done, pending), piped, after, drawn = values[0]
    assert before == [0.0, 0.0, "1970-01-01", True]
    assert [one[0] for one in branches] == ["b0", "b1", "b2"]
    assert branches[2][1] == [1_900_000_003.0, 1_900_000_003.0, "2030-03-17", True]
    assert (done, len(pending)) == (["29"], 29)
    assert piped == list(range(20))
    assert after[0] == after[1] > 1_900_000_030
    assert len({str(one[2]) for one in branches} | {str(drawn)}) == 4


async def test_a_cell_has_room_for_all_the_branches_of_a_program(
    sandbox: Sandbox, image_id: str, tmp_path: Path
) -> None:
    body = """
        from cloche import llm, parallel

        def sample(task):
            inner = lambda i: parallel([lambda j=j: int(llm(str(i * 16 + j))) for j in range(16)])
            return sum(sum(parallel([lambda i=i: inner(i) for i in range(16)]), []))
    """
    async with running(sandbox, image_id, snapshot(tmp_path / "s", body)) as cell:
        story = await choosing(cell, lambda waiting: waiting[-1], lambda call: call.args["prompt"])
    assert story.value == sum(range(256))
    assert story.ended.accounting.peak_memory_bytes is not None
    assert story.ended.accounting.peak_memory_bytes < 256 * MIB


async def test_an_operator_may_allow_fewer_processes_than_a_program_has_branches(
    sandbox: Sandbox, image_id: str, tmp_path: Path
) -> None:
    body = """
        from cloche import llm, parallel

        def sample(task):
            return sum(parallel([lambda i=i: int(llm(str(i))) for i in range(40)]))
    """
    small = replace(sandbox, settings=sandbox.settings.model_copy(update={"processes": 20}))
    async with running(small, image_id, snapshot(tmp_path / "s", body)) as cell:
        story = await choosing(cell, lambda waiting: waiting[0], lambda call: call.args["prompt"])
    assert story.value == sum(range(40))
