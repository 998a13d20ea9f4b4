"""Processes that a runtime leaves behind without a container: found by the container's id, ended, and nobody else with them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import anyio
import pytest

from engine.errors import CellLost
from engine.sandbox import remains, uids
from engine.sandbox.cell import open_cell
from engine.sandbox.docker import Engine
from engine.sandbox.engine_errors import EngineRefused
from engine.sandbox.freezer import thaw
from engine.sandbox.launch import Launch, Wish
from engine.sandbox.outcome import Cause
from engine.sandbox.policy import CellPolicy
from engine.sandbox.service import Sandbox
from tests.helpers.private_engine import private_engine
from tests.helpers.sandbox import (
    alive,
    containers_of,
    end_process,
    loaded_image,
    make_sandbox,
    nothing_left,
    wait_for,
)

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.anyio,
    pytest.mark.runc_only("what runc leaves; what gVisor leaves has test_gvisor_remains.py"),
]


@pytest.fixture(scope="module")
def leaky() -> Iterator[Engine]:
    """An engine of the tests' own: starts that fail may leave a shim in it."""
    with private_engine() as private:
        engine = Engine(private.host, timeout_s=60)
        loaded_image(engine)
        yield engine
        engine.close()


@pytest.fixture
def own(leaky: Engine, tmp_path: Path) -> Iterator[Sandbox]:
    sandbox = make_sandbox(tmp_path / "home", leaky, runtime="runc")
    with nothing_left(sandbox):
        yield sandbox


def unstartable(sandbox: Sandbox) -> CellPolicy:
    """runc itself needs `openat` after the filter is on: its start fails, and its shim stays."""
    policy = sandbox.policy("run", "runc")
    return policy.with_seccomp(policy.seccomp.replace('"openat"', '"add_key"'))


@contextmanager
def leaked(sandbox: Sandbox, image_id: str) -> Iterator[tuple[Launch, list[int]]]:
    """A cell whose owner died after its container went, and two processes that carry the container's id.

    They stand in for a runtime's, which real engines leave behind only now and then: one goes by a shim's name, one is in a
    cgroup of the container's.
    """
    policy = sandbox.policy("run", "runc")
    launch = Launch(sandbox, Wish(image_id, "run", 60, 1, "", policy, policy))
    launch.prepare(wait_s=60)
    launch.start()
    sandbox.engine.destroy(launch.container)
    launch.release(gone=False)
    with ExitStack() as stack:
        shim = stack.enter_context(standing("containerd-shim-runc-v2", "-id", launch.container))
        sandboxed = stack.enter_context(standing("anything"))
        stack.enter_context(frozen_into(sandboxed, launch.container))
        yield launch, sorted([shim.pid, sandboxed.pid])


@contextmanager
def standing(name: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that goes by this name and waits."""
    code = "import sys; sys.stdin.read()"
    with subprocess.Popen([name, "-c", code, *arguments], executable=sys.executable, stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


@contextmanager
def frozen_into(process: subprocess.Popen[bytes], container: str) -> Iterator[None]:
    """Puts it into a frozen cgroup with the name of a container."""
    hierarchy = Path("/sys/fs/cgroup/freezer")
    legacy = hierarchy.is_dir()
    group = (hierarchy if legacy else hierarchy.parent) / "cloche-test" / container
    group.mkdir(parents=True)
    (group / "cgroup.procs").write_text(str(process.pid))
    (group / ("freezer.state" if legacy else "cgroup.freeze")).write_text("FROZEN" if legacy else "1")
    try:
        yield
    finally:  # frozen, it would not die, and whoever waits for it would wait for ever
        thaw(process.pid, container)
        process.kill()
        process.wait(timeout=60)
        if group.is_dir():
            group.rmdir()
        group.parent.rmdir()


async def test_a_failed_start_leaves_no_process_of_the_runtime(own: Sandbox, image_id: str) -> None:
    with pytest.raises(EngineRefused):
        async with open_cell(own, image_id=image_id, kind="run", deadline_s=5, policy=unstartable(own)):
            pytest.fail("a cell that cannot start was opened")
    assert shims_of(own) == []


def shims_of(sandbox: Sandbox) -> list[str]:
    """Command lines of all shims of this private engine."""
    run = str(Path(sandbox.engine.host.removeprefix("unix://")).parent)
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        if b"containerd-shim" in line.split(b"\0")[0] and run.encode() in line:
            lines.append(line.decode())
    return lines


WITHOUT_FLAG = """#!/bin/sh
for argument; do
    shift
    [ "$argument" = --network=none ] || set -- "$@" "$argument"
done
exec {runsc} "$@"
"""


async def test_what_a_refused_start_of_gvisor_leaves_for_ever_is_ended_with_its_cgroups(
    image_id: str, tmp_path: Path
) -> None:
    """This version of it refuses to start without a flag that ours has, and leaves its shim, gofer and sandbox."""
    runsc = shutil.which("runsc")
    assert runsc, "gVisor is not installed; `make gvisor` does it"
    wrapper = tmp_path / "runsc"
    wrapper.write_text(WITHOUT_FLAG.format(runsc=runsc))
    wrapper.chmod(0o755)
    with private_engine(gvisor=True, runsc=wrapper) as private:
        engine = Engine(private.host, timeout_s=60)
        loaded_image(engine)
        sandbox = make_sandbox(tmp_path / "home", engine, runtime="runsc")
        policy = sandbox.policy("run", "runsc")
        launch = Launch(sandbox, Wish(image_id, "run", 60, 1, "", policy, policy))
        with nothing_left(sandbox):
            launch.prepare(wait_s=60)
            with pytest.raises(EngineRefused):
                launch.start()
            engine.destroy(launch.container)
            # shim, gofer, sandbox and what traces for it
            assert len(remains.find({launch.container})[launch.container]) >= 3
            launch.destroy()
            launch.release(gone=True)
        assert shims_of(sandbox) == []
        assert named_after(launch.container) == []
        engine.close()


def named_after(container: str) -> list[Path]:
    """Cgroups of a container, wherever an engine put them."""
    return [path for path in Path("/sys/fs/cgroup").glob(f"**/*{container}*") if path.is_dir()]


async def test_what_lives_on_without_a_container_is_listed_and_reaped_and_its_uid_is_free(
    sandbox: Sandbox, image_id: str
) -> None:
    with leaked(sandbox, image_id) as (launch, pids):
        assert containers_of(sandbox) == []
        (listed,) = sandbox.list_cells()
        assert (listed.cell_id, listed.container, listed.owned) == (launch.cell_id, launch.container, False)
        assert listed.state == "no container, 2 processes"
        assert uid_file(launch.uid).read_text() == launch.cell_id
        (reaped,) = sandbox.reap()
        assert (reaped.cell_id, reaped.why, reaped.problem) == (launch.cell_id, "leftover_directory", "")
        assert not any(alive(pid) for pid in pids)
        assert named_after(launch.container) == []
    assert sandbox.list_cells() == []
    assert uid_file(launch.uid).read_text() == ""


async def test_a_cell_whose_processes_do_not_end_is_kept_with_the_reason(
    sandbox: Sandbox, image_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with leaked(sandbox, image_id) as (launch, pids):
        with monkeypatch.context() as patch:
            patch.setattr(remains, "_end", lambda *_: False)  # as for processes of another user
            (reaped,) = sandbox.reap()
        assert f"{pids[0]}, {pids[1]}" in reaped.problem
        assert uid_file(launch.uid).read_text() == launch.cell_id
        assert [one.cell_id for one in sandbox.list_cells()] == [launch.cell_id]
        assert [one.problem for one in sandbox.reap()] == [""]


def uid_file(uid: int) -> Path:
    path = uids.lock_of(uid)
    assert path is not None
    return path


async def test_a_killed_shim_takes_its_cell_along_and_nothing_of_it_stays(own: Sandbox, image_id: str) -> None:
    async with open_cell(own, image_id=image_id, kind="run", deadline_s=60) as cell:
        first = int(own.engine.inspect(cell.container)["State"]["Pid"])
        (shim,) = [pid for pid in remains.find({cell.container})[cell.container] if is_shim(pid)]
        end_process(shim)
        wait_for(lambda: not own.engine.inspect(cell.container)["State"]["Running"])
        with pytest.raises(CellLost), anyio.fail_after(60):
            await cell.receive()
        end = await cell.finish()
    assert (end.sandbox_failed, end.left_behind) == (True, False)
    assert end.cause in (Cause.SUPERVISOR_LOST, Cause.OPERATOR)
    assert remains.find({cell.container}) == {}
    assert not alive(first)


def is_shim(pid: int) -> bool:
    return b"containerd-shim" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]


async def test_somebody_who_only_names_the_container_is_left_alone(own: Sandbox, image_id: str) -> None:
    async with open_cell(own, image_id=image_id, kind="run", deadline_s=60) as cell:
        container = cell.container
        reader = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()", container], stdin=-1)
        assert reader.pid not in remains.find({container})[container]
    assert reader.poll() is None
    reader.communicate(timeout=60)


def test_a_process_that_got_the_number_of_one_that_was_found_is_not_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=-1) as other:
        assert remains._end(other.pid, "0" * 64, until=0.0)
        assert other.poll() is None
        other.communicate(timeout=60)


@pytest.mark.parametrize(
    ("cgroup", "line", "state", "found"),
    [
        ("4:memory:/docker/{id}", "/usr/bin/python3", "S", True),
        ("0::/system.slice/docker-{id}.scope", "runsc-gofer", "S", True),
        ("0::/system.slice/docker.service", "/usr/bin/containerd-shim-runc-v2\0-id\0{id}", "S", True),
        ("0::/", "runsc-sandbox\0--bundle=/run/moby/{id}", "D", True),
        ("0::/", "/usr/bin/docker\0logs\0{id}", "S", False),
        ("0::/", "sh\0-c\0runc {id}", "S", False),
        ("4:memory:/docker/{id}0", "/usr/bin/python3", "S", False),
        ("4:memory:/docker/{id}", "", "Z", False),
    ],
)
def test_what_carries_an_id(tmp_path: Path, cgroup: str, line: str, state: str, found: bool) -> None:
    identity = "ab" * 32
    process = tmp_path / "17"
    process.mkdir()
    (process / "cgroup").write_text(cgroup.format(id=identity) + "\n")
    (process / "cmdline").write_text(line.format(id=identity) + "\0")
    (process / "stat").write_text(f"17 (a ) b) {state} 1 17")
    expected = {identity: (17,)} if found else {}
    assert remains.find({identity, "cd" * 32}, proc=tmp_path) == expected
    assert remains.find({"", "cd" * 32}, proc=tmp_path) == {}


def test_a_uid_is_given_back_only_by_the_name_of_the_cell_that_had_it_and_never_while_it_is_held(
    tmp_path: Path,
) -> None:
    place = (tmp_path / "locks",)
    claim = uids.claim("c1", frozenset, directories=place)
    file = place[0] / str(claim.uid)
    uids.clear(claim.uid, "c1", directories=place)
    assert file.read_text() == "c1"
    claim.abandon()
    uids.clear(claim.uid, "c2", directories=place)
    assert file.read_text() == "c1"
    uids.clear(claim.uid, "c1", directories=place)
    assert file.read_text() == ""
    uids.clear(os.getuid(), "c1", directories=place)
    assert sorted(path.name for path in place[0].iterdir()) == [str(claim.uid)]
