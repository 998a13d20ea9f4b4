"""The engine that `make` starts: it comes up beside whatever is there, survives a bad past, and leaves nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.engine_script import AT_ONCE_S, ScriptedEngine, gone, left_running, wait_until

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.runc_only(
        "containers are to be left running, without a cell; test_gvisor_engine.py has those of gVisor"
    ),
]


@pytest.fixture
def engine() -> Iterator[ScriptedEngine]:
    root = Path(tempfile.mkdtemp(prefix="ce-", dir="/tmp"))
    engine = ScriptedEngine(root)
    yield engine
    engine.call("stop")
    shutil.rmtree(root)


def test_start_brings_up_an_engine_where_there_was_nothing(engine: ScriptedEngine) -> None:
    started = engine.call("start")
    assert started.returncode == 0, started.stderr
    status = engine.call("status")
    assert status.returncode == 0
    assert f"pid {engine.pid()}" in status.stdout


def test_a_second_start_leaves_the_first_engine_as_it_is(engine: ScriptedEngine) -> None:
    engine.call("start")
    record = (engine.root / "run" / "engine.json").read_bytes()
    again = engine.call("start")
    assert again.returncode == 0
    assert again.stdout == ""
    assert (engine.root / "run" / "engine.json").read_bytes() == record


def test_start_touches_nothing_where_another_engine_answers(engine: ScriptedEngine) -> None:
    engine.call("start")
    other = Path(tempfile.mkdtemp(prefix="ce-", dir="/tmp"))
    bystander = ScriptedEngine(other)
    assert bystander.call("start", DOCKER_HOST=engine.address).returncode == 0
    assert list(other.iterdir()) == []
    stopped = bystander.call("stop", DOCKER_HOST=engine.address)
    assert stopped.returncode == 0
    assert not gone(engine.pid())
    other.rmdir()


def test_start_refuses_a_named_engine_that_does_not_answer_and_starts_none(engine: ScriptedEngine) -> None:
    refused = engine.call("start", DOCKER_HOST=f"unix://{engine.root}/absent.sock")
    assert refused.returncode == 1
    assert "unset DOCKER_HOST" in refused.stderr
    assert list(engine.root.iterdir()) == []


def test_start_copes_with_an_engine_that_was_killed(engine: ScriptedEngine) -> None:
    engine.call("start")
    first = engine.pid()
    os.kill(first, signal.SIGKILL)
    assert wait_until(lambda: gone(first))
    again = engine.call("start")
    assert again.returncode == 0, again.stderr
    assert engine.pid() != first
    assert engine.call("status").returncode == 0


def test_start_ends_the_containers_of_a_killed_engine_without_their_grace(engine: ScriptedEngine) -> None:
    engine.call("start")
    with left_running(engine) as program:
        killed = engine.pid()
        os.kill(killed, signal.SIGKILL)
        assert wait_until(lambda: gone(killed))
        assert not gone(program)
        begun = time.monotonic()
        again = engine.call("start")
    assert again.returncode == 0, again.stderr
    assert gone(program)
    assert time.monotonic() - begun < AT_ONCE_S


def test_stop_ends_cells_at_once(engine: ScriptedEngine) -> None:
    engine.call("start")
    with left_running(engine) as program:
        begun = time.monotonic()
        stopped = engine.call("stop")
    assert stopped.returncode == 0, stopped.stderr
    assert gone(program)
    assert time.monotonic() - begun < AT_ONCE_S


def test_stop_after_the_engine_was_killed_ends_what_it_left(engine: ScriptedEngine) -> None:
    engine.call("start")
    with left_running(engine) as program:
        os.kill(engine.pid(), signal.SIGKILL)
        stopped = engine.call("stop")
    assert stopped.returncode == 0, stopped.stderr
    assert gone(program)
    assert engine.processes() == []
    assert str(engine.root) not in Path("/proc/self/mountinfo").read_text()


def test_start_copes_with_pid_files_that_name_living_strangers(engine: ScriptedEngine) -> None:
    containerd = engine.root / "run" / "exec" / "containerd"
    containerd.mkdir(parents=True)
    (containerd / "containerd.pid").write_text(str(os.getpid()))
    (engine.root / "run" / "docker.pid").write_text(str(os.getpid()))
    (engine.root / "run" / "engine.json").write_text(json.dumps({"pid": os.getpid(), "started": 1}))
    started = engine.call("start")
    assert started.returncode == 0, started.stderr
    assert engine.pid() != os.getpid()


def test_start_says_what_the_engine_said_when_it_does_not_come_up(engine: ScriptedEngine) -> None:
    (engine.root / "data").write_text("a file where a directory belongs")
    (engine.root / "run").mkdir()
    failed = engine.call("start")
    assert failed.returncode == 1
    assert "data" in failed.stderr
    assert engine.processes() == []


def test_start_refuses_an_engine_that_hangs_and_stop_ends_it(engine: ScriptedEngine) -> None:
    engine.call("start")
    hung = engine.pid()
    os.kill(hung, signal.SIGSTOP)
    try:
        refused = engine.call("start", CLOCHE_ENGINE_PATIENCE_S="1")
        assert refused.returncode == 1
        assert "does not answer" in refused.stderr
        assert "engine-stop" in refused.stderr
        assert engine.call("stop", CLOCHE_ENGINE_PATIENCE_S="1").returncode == 0
        assert gone(hung)
        assert engine.processes() == []
    finally:
        if not gone(hung):
            os.kill(hung, signal.SIGCONT)


def test_stop_leaves_no_process_no_mount_and_no_record(engine: ScriptedEngine) -> None:
    engine.call("start")
    stopped = engine.call("stop")
    assert stopped.returncode == 0, stopped.stderr
    assert engine.processes() == []
    assert str(engine.root) not in Path("/proc/self/mountinfo").read_text()
    assert not (engine.root / "run" / "engine.json").exists()
    assert engine.call("status").returncode == 1


def test_stop_never_ends_a_process_that_took_over_the_recorded_pid(engine: ScriptedEngine) -> None:
    (engine.root / "run").mkdir()
    stranger = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        (engine.root / "run" / "engine.json").write_text(json.dumps({"pid": stranger.pid, "started": 1}))
        assert engine.call("stop").returncode == 0
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.communicate()
