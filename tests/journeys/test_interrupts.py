"""Ctrl-C and SIGTERM, once and many times: a command ends with its exit code, and what it had begun is ended and recorded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from textwrap import dedent

import pytest

from tests.helpers.commands import CLOCHE, Answer, Commands, home_with_image, package
from tests.helpers.private_engine import private_engine
from tests.helpers.sandbox import wait_for

pytestmark = pytest.mark.sandbox

INT, TERM = signal.SIGINT, signal.SIGTERM

HELD = """
    import asyncio

    from cloche.programs import read

    from .helpers.constant import ANSWER


    async def _until_it_may_go(pause_s: float) -> None:
        while read("say.txt")["text"].strip() != "go":
            await asyncio.sleep(pause_s)


    def held(task: str) -> int:
        asyncio.run(_until_it_may_go(float(task)))
        return ANSWER
"""

ENDLESS = """
    from ..workflow import held


    def test_it_takes_for_ever() -> None:
        while callable(held):
            pass
"""


class Started(list[subprocess.Popen[bytes]]):
    """Commands that a test began."""

    def __call__(self, process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        self.append(process)
        return process


@pytest.fixture
def started() -> Iterator[Started]:
    """Whatever a failed test left running is ended."""
    processes = Started()
    yield processes
    for process in processes:
        if process.poll() is None:
            process.kill()
            process.communicate(timeout=60)


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory, engine_with_image: object) -> Commands:
    """A home with the package `held`, which ends when its workspace says so."""
    root = tmp_path_factory.mktemp("interrupts")
    cloche = Commands(home_with_image(root / "home"))
    published = cloche("workflows", "publish", package(root, "held", HELD))
    assert published.code == 0, published
    return cloche


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "say.txt").write_text("wait\n")
    return folder


def send(process: subprocess.Popen[bytes], numbers: list[signal.Signals], gap_s: float) -> Answer:
    """Send the signals so far apart, as long as there is a process to get them, and wait for its end."""
    for number in numbers:
        process.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=gap_s)
    stdout, stderr = process.communicate(timeout=120)
    return Answer(process.returncode, stdout.decode(), stderr.decode())


def journal(cloche: Commands, run_id: str) -> list[str]:
    """The events of a run, by name; a line that is being written is not one yet."""
    (path,) = cloche.home.glob(f"sessions/*/workflows/{run_id}/journal.jsonl")
    return [json.loads(line)["e"] for line in path.read_bytes().split(b"\n")[:-1]]


def begun(cloche: Commands, event: str, *, beside: set[str]) -> str:
    """Wait until a new run has recorded such an event; its id."""
    found: list[str] = []

    def is_there() -> bool:
        runs = runs_of(cloche) - beside
        found[:] = [run_id for run_id in runs if event in journal(cloche, run_id)]
        return bool(found)

    wait_for(is_there, timeout_s=60)
    return found[0]


def runs_of(cloche: Commands) -> set[str]:
    """Ids of the runs that there are; one that is being made, under another name, is not one yet."""
    return {path.name for path in cloche.home.glob("sessions/*/workflows/[!.]*")}


def assert_ended_in_order(cloche: Commands, run_id: str, answer: Answer) -> None:
    """Interrupted, without a traceback; the cell that was begun is gone and its end recorded, and so is the run's."""
    assert answer.code == 130, answer
    assert "Traceback" not in answer.stderr
    events = journal(cloche, run_id)
    assert events.count("cell.ended") == events.count("cell.started") > 0
    assert events[-1] == "run.finished"
    assert cloche("cells", "list", "--json").data["cells"] == []


def assert_goes_on(cloche: Commands, run_id: str, workspace: Path) -> None:
    (workspace / "say.txt").write_text("go\n")
    resumed = cloche("runs", "resume", run_id, "--json")
    assert (resumed.code, resumed.data["value"]) == (0, 42), resumed


@pytest.mark.parametrize(
    ("numbers", "gap_s"),
    [
        ([INT], 0),
        ([TERM], 0),
        ([INT] * 2, 0.01),
        ([INT] * 2, 0.1),
        ([TERM] * 2, 0.03),
        ([INT] * 3, 0.02),
        ([INT] * 3, 0.05),
        ([INT, INT, TERM], 0.03),
        ([INT] * 5, 0.02),
        ([INT] * 5, 0.2),
    ],
)
def test_signals_in_a_cell_however_many_end_it_in_order(
    numbers: list[signal.Signals], gap_s: float, held: Commands, workspace: Path, started: Started
) -> None:
    before = runs_of(held)
    process = started(held.start("workflows", "run", "held", "0.05", "--workspace", workspace))
    run_id = begun(held, "call.completed", beside=before)
    answer = send(process, numbers, gap_s)
    assert_ended_in_order(held, run_id, answer)
    assert answer.stderr.count("still ending the cell") <= 1
    assert_goes_on(held, run_id, workspace)


@pytest.mark.parametrize(("count", "gap_s"), [(1, 0), (3, 0.02), (5, 0.1)])
def test_signals_while_a_cell_opens_leave_none(
    count: int, gap_s: float, held: Commands, workspace: Path, started: Started
) -> None:
    before = {path.name for path in held.home.glob("cells/*")}
    process = started(held.start("workflows", "run", "held", "0.05", "--workspace", workspace))
    wait_for(lambda: {path.name for path in held.home.glob("cells/*")} != before, timeout_s=60)
    answer = send(process, [INT] * count, gap_s)
    assert answer.code == 130, answer
    assert "Traceback" not in answer.stderr
    newest = str(held.runs()[0]["run_id"])
    assert journal(held, newest)[-1] == "run.finished"
    assert held("cells", "list", "--json").data["cells"] == []
    assert_goes_on(held, newest, workspace)


@pytest.mark.parametrize(("count", "gap_s"), [(1, 0), (2, 0.02), (5, 0.02)])
def test_signals_while_a_run_waits_without_a_cell_end_it_in_order(
    count: int, gap_s: float, held: Commands, workspace: Path, started: Started
) -> None:
    before = runs_of(held)
    impatient = Commands(held.home, {"CLOCHE_SUSPEND_AFTER_S": "0.2"})
    process = started(impatient.start("workflows", "run", "held", "30", "--workspace", workspace))
    run_id = begun(held, "run.waiting", beside=before)
    answer = send(process, [INT] * count, gap_s)
    assert_ended_in_order(held, run_id, answer)
    (workspace / "say.txt").write_text("go\n")


@pytest.mark.parametrize("number", [INT, TERM])
@pytest.mark.parametrize("after_s", [0, 0.05, 0.15, 0.3, 0.6])
@pytest.mark.parametrize("count", [1, 3])
def test_signals_while_a_command_starts_end_it_quietly(
    number: signal.Signals, after_s: float, count: int, shared: Commands, started: Started
) -> None:
    command = [
        CLOCHE,
        "workflows",
        "run",
        "nothing",
        "--task-file",
        "-",
    ]  # its input does not come: it does not end before
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = started(subprocess.Popen(command, env=shared.env(), **streams))
    wait_for(lambda: catches(process.pid, TERM))
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=after_s)
    for _ in range(count):
        process.send_signal(number)
    assert process.wait(timeout=60) == 130
    stdout, stderr = process.communicate()
    assert stdout == b""
    assert b"Traceback" not in stderr
    assert len(stderr.splitlines()) <= 2


def catches(pid: int, number: signal.Signals) -> bool:
    """True once a process handles a signal itself. Python handles SIGINT from its very beginning, SIGTERM nobody but us."""
    status = Path(f"/proc/{pid}/status").read_text()
    (caught,) = (line.split()[1] for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught, 16) >> (number - 1) & 1)


@pytest.mark.parametrize(("numbers", "gap_s"), [([INT], 0), ([INT] * 3, 0.02), ([TERM] * 2, 0.1), ([INT] * 5, 0.05)])
def test_signals_during_a_gate_publish_nothing_and_leave_no_cell(
    numbers: list[signal.Signals], gap_s: float, cloche: Commands, tmp_path: Path, started: Started
) -> None:
    process = started(cloche.start("workflows", "publish", package(tmp_path, "held", HELD, test=ENDLESS)))
    wait_for(lambda: any((cell / "out").is_dir() for cell in cloche.home.glob("cells/c*")), timeout_s=60)
    answer = send(process, numbers, gap_s)
    assert answer.code == 130, answer
    assert "Traceback" not in answer.stderr
    assert cloche("workflows", "list", "--json").data["workflows"] == []
    assert cloche("cells", "list", "--json").data["cells"] == []


def test_a_signal_is_told_once_that_the_cell_still_ends_and_insisting_leaves_it_to_the_reaper(
    tmp_path: Path, workspace: Path, engine_with_image: object, started: Started
) -> None:
    with private_engine() as engine:
        home = home_with_image(tmp_path / "home", host=engine.host)
        cloche = Commands(home, {"DOCKER_HOST": engine.host})
        assert cloche("workflows", "publish", package(tmp_path, "held", HELD)).code == 0
        process = started(cloche.start("workflows", "run", "held", "0.05", "--workspace", workspace))
        run_id = begun(cloche, "call.completed", beside=set())
        (cell,) = (path.name for path in home.glob("cells/c*"))
        engine.signal(signal.SIGSTOP)  # it will not answer that the cell is gone
        try:
            answer = send(process, [INT] * 5, 1.2)
        finally:
            engine.signal(signal.SIGCONT)
        assert answer.code == 130, answer
        assert "Traceback" not in answer.stderr
        assert answer.stderr.count("still ending the cell") == 1
        assert f"Left: cell {cell}. `cloche cells reap` ends them." in answer.stderr
        assert "run.finished" not in journal(cloche, run_id)
        assert [one["cell_id"] for one in cloche("cells", "reap", "--json").data["reaped"]] == [cell]
        assert_goes_on(cloche, run_id, workspace)


CALLER = """
    import sys
    from functools import partial
    from pathlib import Path

    import anyio

    from engine.app import open_app

    with open_app() as app:
        try:
            anyio.run(partial(app.run, "held", "0.05", workspace=Path(sys.argv[1])))
        except KeyboardInterrupt:
            print("KeyboardInterrupt")
"""


@pytest.mark.parametrize(("count", "gap_s"), [(1, 0), (2, 0.01), (2, 0.03)])
def test_a_caller_from_python_gets_its_own_exception_and_the_cell_is_ended_in_order_too(
    count: int, gap_s: float, held: Commands, workspace: Path, started: Started
) -> None:
    before = runs_of(held)
    command = [sys.executable, "-c", dedent(CALLER), str(workspace)]
    env = {**held.env(), "PYTHONPATH": os.pathsep.join(sys.path)}
    process = started(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    run_id = begun(held, "call.completed", beside=before)
    answer = send(process, [INT] * count, gap_s)
    assert answer.stdout == "KeyboardInterrupt\n", answer
    events = journal(held, run_id)
    assert events.count("cell.ended") == 1
    assert events[-1] == "run.finished"
    assert held("cells", "list", "--json").data["cells"] == []
