"""gVisor in engines of ours: the second one that tests use, and `make gvisor`, which leaves everybody else's engine alone."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import docker
import docker.errors
import pytest

from tests.helpers.engine_script import ScriptedEngine, gone, left_running, wait_until
from tests.helpers.runtimes import leaking_gvisor

pytestmark = pytest.mark.sandbox


@pytest.fixture
def engine() -> Iterator[ScriptedEngine]:
    engine = ScriptedEngine(Path(tempfile.mkdtemp(prefix="ce-", dir="/tmp")))
    yield engine
    engine.call("stop")
    shutil.rmtree(engine.root)


def runtimes(engine: ScriptedEngine) -> set[str]:
    client = docker.APIClient(base_url=engine.address, timeout=60)
    try:
        return set(client.info()["Runtimes"])
    finally:
        client.close()


def helpers(engine: ScriptedEngine, *names: str) -> list[int]:
    """Pids of the engine's own processes that call themselves so."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue
        program = line.partition(b"\0")[0].rpartition(b"/")[2].decode()
        if program.startswith(names) and f"{engine.root}/".encode() in line and not gone(int(entry.name)):
            found.append(int(entry.name))
    return found


def cgroups(engine: ScriptedEngine) -> list[Path]:
    return [*Path("/sys/fs/cgroup").glob(f"*/cloche-{engine.root.name}")]


def left(engine: ScriptedEngine) -> list[str]:
    """Processes, cgroups and mounts."""
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if f"{engine.root}/" in line]
    return [*engine.processes(), *map(str, cgroups(engine)), *mounts]


def test_the_second_engine_has_gvisor_from_its_start_and_runs_a_container_in_it(engine: ScriptedEngine) -> None:
    started = engine.call("start", "second", CI="true")
    assert started.returncode == 0, started.stderr
    assert "runsc" in runtimes(engine)
    with left_running(engine, runtime="runsc") as program:
        assert program in helpers(engine, "runsc-sandbox")
    pid = engine.pid()
    assert engine.call("start", "second", CI="true").stdout == ""
    assert engine.pid() == pid
    assert engine.call("stop", "second").returncode == 0
    assert left(engine) == []


@pytest.mark.parametrize("runtime", ["runc", "runsc"])
def test_stop_ends_what_is_left_when_the_engine_its_containerd_and_its_shims_were_killed(
    engine: ScriptedEngine, runtime: str
) -> None:
    engine.call("start", "second", CI="true")
    with left_running(engine, runtime=runtime) as program:
        for pid in (engine.pid(), *helpers(engine, "containerd")):
            os.kill(pid, signal.SIGKILL)
        assert wait_until(lambda: not helpers(engine, "containerd"))
        assert not gone(program)
        stopped = engine.call("stop", "second")
    assert stopped.returncode == 0, stopped.stderr
    assert gone(program)
    assert left(engine) == []


def test_start_after_everything_was_killed_has_none_of_it_in_the_way(engine: ScriptedEngine) -> None:
    engine.call("start", "second", CI="true")
    with left_running(engine, runtime="runsc") as program:
        for pid in (engine.pid(), *helpers(engine, "containerd", "runsc-gofer")):
            os.kill(pid, signal.SIGKILL)
        assert wait_until(lambda: not helpers(engine, "containerd"))
        again = engine.call("start", "second", CI="true")
    assert again.returncode == 0, again.stderr
    assert gone(program)
    assert "runsc" in runtimes(engine)


@pytest.mark.parametrize("runtime", ["runc", "runsc"])
def test_stop_ends_a_frozen_container(engine: ScriptedEngine, runtime: str) -> None:
    engine.call("start", "second", CI="true")
    with left_running(engine, runtime=runtime) as program:
        (state,) = Path("/sys/fs/cgroup").glob(f"**/cloche-{engine.root.name}/*/freezer.state")
        state.write_text("FROZEN")
        stopped = engine.call("stop", "second")
    assert stopped.returncode == 0, stopped.stderr
    assert gone(program)
    assert left(engine) == []


def test_stop_ends_the_processes_that_a_failed_start_of_gvisor_left(engine: ScriptedEngine) -> None:
    leaking = leaking_gvisor(engine.root)
    engine.call("start", "second", CI="true", CLOCHE_ENGINE_RUNSC=str(leaking))
    with pytest.raises(docker.errors.APIError), left_running(engine, runtime="runsc"):
        pytest.fail("gVisor started with a network")
    assert helpers(engine, "runsc-sandbox", "runsc-gofer", "containerd-shim") != []
    assert engine.call("stop", "second").returncode == 0
    assert left(engine) == []


def test_where_gvisor_cannot_be_installed_that_is_said_and_fails_in_ci_only(engine: ScriptedEngine) -> None:
    # no apt-get and no runsc on this PATH: as on another system
    here = engine.call("start", "second", PATH="/nowhere", CI="")
    assert here.returncode == 0
    assert "not tried under gVisor" in here.stdout
    assert "apt-get install runsc" in here.stdout
    in_ci = engine.call("start", "second", PATH="/nowhere", CI="true")
    assert in_ci.returncode == 1
    assert "apt-get install runsc" in in_ci.stderr
    assert engine.processes() == []


def test_an_engine_without_gvisor_is_not_taken_for_the_second_one(engine: ScriptedEngine) -> None:
    engine.call("start")
    refused = engine.call("start", "second", CI="true")
    assert refused.returncode == 1
    assert "has no gVisor" in refused.stderr


def test_adding_gvisor_leaves_the_engine_and_its_containers_running_and_lasts(engine: ScriptedEngine) -> None:
    engine.call("start")
    assert "runsc" not in runtimes(engine)
    pid = engine.pid()
    with left_running(engine) as program:
        added = engine.call("gvisor")
        assert added.returncode == 0, added.stderr
        assert "running cells went on" in added.stdout
        assert engine.pid() == pid
        assert not gone(program)
        assert "runsc" in runtimes(engine)
        assert "already" in engine.call("gvisor").stdout
        engine.call("stop")
    engine.call("start")
    assert "runsc" in runtimes(engine)


def test_adding_gvisor_to_an_engine_of_somebody_else_is_refused_with_what_they_would_write(
    engine: ScriptedEngine,
) -> None:
    engine.call("start")
    other = ScriptedEngine(Path(tempfile.mkdtemp(prefix="ce-", dir="/tmp")))
    try:
        for refused in (other.call("gvisor", DOCKER_HOST=engine.address), other.call("gvisor")):
            assert refused.returncode == 1
            assert "was not started by `make engine`" in refused.stderr
            assert '"runtimeArgs": ["--network=none"' in refused.stderr
            assert "daemon.json" in refused.stderr
            assert refused.stdout == ""
        assert "runsc" not in runtimes(engine)
        assert list(other.root.iterdir()) == []
    finally:
        other.root.rmdir()


def test_adding_gvisor_is_refused_when_the_recorded_pid_is_another_process_now(engine: ScriptedEngine) -> None:
    engine.call("start")
    record = engine.root / "run" / "engine.json"
    kept = record.read_text()
    record.write_text(f'{{"pid": {os.getpid()}, "started": 1}}')
    try:
        assert engine.call("gvisor").returncode == 1
        assert "runsc" not in runtimes(engine)
    finally:
        record.write_text(kept)
