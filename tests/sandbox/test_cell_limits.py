"""Every bound of a cell, hit by a program on purpose: a named cause, and never a crash of the sandbox."""

from __future__ import annotations

from pathlib import Path
from time import monotonic

import pytest

from engine.sandbox.docker import Engine
from engine.sandbox.frames import End
from engine.sandbox.outcome import Cause
from engine.sandbox.policy import Runtime
from engine.sandbox.runtimes import expected
from engine.sandbox.service import Sandbox
from tests.helpers.sandbox import make_sandbox, nothing_left, run_package, running, snapshot, tell, tell_or_lose

pytestmark = [pytest.mark.sandbox, pytest.mark.anyio, pytest.mark.both_runtimes]

MIB = 1024 * 1024


async def test_memory_of_the_program_runs_out_as_limit_memory(
    sandbox: Sandbox, image_id: str, tmp_path: Path, runtime: Runtime
) -> None:
    body = """
        def sample(task):
            held = []
            while True:
                held.append(b"x" * (16 << 20))
    """
    async with running(sandbox, image_id, snapshot(tmp_path / "s", body)) as cell:
        story = await tell_or_lose(cell)
    assert (story.ended.cause, story.ended.sandbox_failed) == (Cause.LIMIT_MEMORY, False)
    assert bool(story.of(End)) == expected(runtime, "last_word_at_memory")
    assert story.ended.accounting.peak_memory_bytes is not None
    assert story.ended.accounting.peak_memory_bytes > 400 * MIB


async def test_a_child_that_takes_all_memory_dies_alone_or_with_the_cell_and_the_cause_is_true(
    sandbox: Sandbox, image_id: str, tmp_path: Path, runtime: Runtime
) -> None:
    body = """
        import os

        def sample(task):
            child = os.fork()
            if child == 0:
                held = []
                while True:
                    held.append(b"x" * (16 << 20))
            return os.waitpid(child, 0)[1]
    """
    async with running(sandbox, image_id, snapshot(tmp_path / "s", body)) as cell:
        story = await tell_or_lose(cell)
    if expected(runtime, "memory_of_a_child") == "child":
        assert story.value == 9
        assert story.ended.cause is Cause.EXIT
        assert "1 processes were killed for memory" in story.ended.notes
    else:
        assert (story.ended.cause, story.ended.sandbox_failed) == (Cause.LIMIT_MEMORY, False)


async def test_tmp_is_bounded_in_bytes_and_files(
    sandbox: Sandbox, image_id: str, tmp_path: Path, runtime: Runtime
) -> None:
    body = """
        import errno, os

        def sample(task):
            told = []
            try:
                for number in range(10):
                    with open(f"/tmp/{number}", "wb") as file:
                        file.write(bytes(16 << 20))
            except OSError as error:
                told.append(errno.errorcode[error.errno])
            for number in range(10):
                if os.path.exists(f"/tmp/{number}"):
                    os.unlink(f"/tmp/{number}")
            try:
                for number in range(20_000):
                    os.close(os.open(f"/tmp/n{number}", os.O_CREAT))
            except OSError as error:
                told.append(errno.errorcode[error.errno])
            return told
    """
    story = await run_package(sandbox, image_id, snapshot(tmp_path / "s", body))
    assert story.value == ["ENOSPC"] * (2 if expected(runtime, "tmp_inodes_bounded") else 1)


FORK_BOMB = """
    import os, time

    def sample(task):
        count = 0
        try:
            while True:
                if os.fork() == 0:
                    time.sleep(1000)
                    os._exit(0)
                count += 1
        except OSError as error:
            return [count, type(error).__name__]
"""


async def test_a_fork_bomb_stays_the_programs_own_error_where_memory_lasts(
    engine: Engine, image_id: str, tmp_path: Path
) -> None:
    sandbox = make_sandbox(tmp_path / "home", engine, processes=32)
    with nothing_left(sandbox):
        story = await run_package(sandbox, image_id, snapshot(tmp_path / "s", FORK_BOMB))
        count, error = story.value
        assert error == "BlockingIOError"
        assert 20 < count <= sandbox.settings.processes
        assert story.ended.cause is Cause.EXIT
        assert story.ended.stragglers == count
        assert story.ended.accounting.peak_processes is not None


async def test_a_fork_bomb_at_the_default_limits_meets_the_limit_that_comes_first(
    sandbox: Sandbox, image_id: str, tmp_path: Path, runtime: Runtime
) -> None:
    async with running(sandbox, image_id, snapshot(tmp_path / "s", FORK_BOMB)) as cell:
        story = await tell_or_lose(cell)
    assert not story.ended.sandbox_failed
    if expected(runtime, "fork_bomb") == "EAGAIN":
        count, error = story.value
        assert error == "BlockingIOError"
        assert 100 < count <= sandbox.settings.processes
    else:
        assert story.ended.cause is Cause.LIMIT_MEMORY


async def test_an_unstoppable_fork_bomb_ends_at_the_deadline(engine: Engine, image_id: str, tmp_path: Path) -> None:
    sandbox = make_sandbox(tmp_path / "home", engine, processes=32)  # so many fit into memory under gVisor too
    body = """
        import os, signal

        def sample(task):
            for number in range(1, 65):
                try:
                    signal.signal(number, signal.SIG_IGN)
                except (OSError, ValueError):
                    pass
            while True:
                try:
                    os.fork()
                    os.setsid()
                except OSError:
                    pass
    """
    async with running(sandbox, image_id, snapshot(tmp_path / "s", body), deadline_s=2) as cell:
        begun = monotonic()
        story = await tell(cell)
        taken = monotonic() - begun
    assert story.ended.cause is Cause.DEADLINE
    assert 1.5 < taken < 30


async def test_a_program_that_ignores_signals_ends_at_the_deadline(
    sandbox: Sandbox, image_id: str, tmp_path: Path
) -> None:
    body = """
        import os, signal, time

        def sample(task):
            for number in range(1, 65):
                try:
                    signal.signal(number, signal.SIG_IGN)
                except (OSError, ValueError):
                    pass
            if os.fork() == 0:
                os.setsid()
            print("ignoring", flush=True)
            while True:
                time.sleep(1)
    """
    async with running(sandbox, image_id, snapshot(tmp_path / "s", body), deadline_s=3) as cell:
        begun = monotonic()
        story = await tell(cell)
        taken = monotonic() - begun
    assert story.output().startswith(b"ignoring\n")
    assert story.ended.cause is Cause.DEADLINE
    assert 2.5 < taken < 30


async def test_an_attack_on_the_supervisor_does_not_move_the_deadline(
    sandbox: Sandbox, image_id: str, tmp_path: Path
) -> None:
    body = """
        import os, signal, time

        def sample(task):
            told = []
            for number in (signal.SIGINT, signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGSEGV):
                try:
                    os.kill(1, number)
                except OSError as error:
                    told.append(type(error).__name__)
            for attempt in (lambda: open("/proc/1/mem", "wb"), lambda: open("/proc/1/oom_score_adj", "w").write("0"),
                            lambda: os.setpriority(os.PRIO_PROCESS, 1, 19), lambda: os.sched_setaffinity(1, {0})):
                try:
                    attempt()
                except OSError as error:
                    told.append(type(error).__name__)
            print(told, flush=True)
            while True:
                time.sleep(1)
    """
    story = await run_package(sandbox, image_id, snapshot(tmp_path / "s", body), deadline_s=3)
    assert story.output().count(b"PermissionError") == 9
    assert story.ended.cause is Cause.DEADLINE


async def test_file_size_and_open_files_are_the_programs_own_errors(
    sandbox: Sandbox, image_id: str, tmp_path: Path
) -> None:
    body = """
        import errno, os, signal

        def sample(task):
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            told = []
            try:
                with open("/tmp/big", "wb") as file:
                    file.truncate(33 << 20)
            except OSError as error:
                told.append(errno.errorcode[error.errno])
            held = []
            try:
                while True:
                    held.append(os.open("/tmp", os.O_RDONLY))
            except OSError as error:
                told.append(errno.errorcode[error.errno])
            return told
    """
    story = await run_package(sandbox, image_id, snapshot(tmp_path / "s", body))
    assert story.value == ["EFBIG", "EMFILE"]


async def test_too_many_output_files_are_a_limit(engine: Engine, image_id: str, tmp_path: Path) -> None:
    sandbox = make_sandbox(tmp_path / "home", engine, output_files=3)
    body = """
        from pathlib import Path

        def sample(task):
            Path("/tmp/output").mkdir(exist_ok=True)
            for number in range(5):
                Path(f"/tmp/output/{number}").write_text("x")
    """
    with nothing_left(sandbox):
        story = await run_package(sandbox, image_id, snapshot(tmp_path / "s", body))
        assert story.ended.cause is Cause.LIMIT_OUTPUT_FILES


async def test_cpu_is_throttled_and_counted(engine: Engine, image_id: str, tmp_path: Path) -> None:
    sandbox = make_sandbox(tmp_path / "home", engine, cpus=0.2)
    body = """
        def sample(task):
            return sum(sum(range(1_000_000)) % 7 for _ in range(30))
    """
    with nothing_left(sandbox):
        story = await run_package(sandbox, image_id, snapshot(tmp_path / "s", body))
        used = story.ended.accounting
        assert used.throttled_s is not None
        assert used.throttled_s > 0.1
        assert used.cpu_s is not None
        assert used.cpu_s < used.run_s + used.start_s
