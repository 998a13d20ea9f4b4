"""`auto`: gVisor where a trial cell of it passed, runc where it is missing, broken or not what its name says; and `doctor` says why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from engine.clock import SystemClock
from engine.sandbox.cell import open_cell
from engine.sandbox.docker import Engine
from engine.sandbox.policy import Runtime
from engine.sandbox.service import Sandbox
from tests.helpers.commands import Commands, home_with_image
from tests.helpers.private_engine import PrivateEngine, private_engine
from tests.helpers.sandbox import containers_of, loaded_image, make_sandbox, nothing_left

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.anyio,
    pytest.mark.runc_only("engines whose `runsc` is something else, to be refused"),
]

BROKEN = "echo 'this program does not work' >&2; exit 1"
RUNC = """for a; do
    shift
    case "$a" in --network=none | --oci-seccomp | --host-fifo=open) ;; *) set -- "$@" "$a" ;; esac
done
exec runc "$@"
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the engine starts as `runsc`; tests write into it what it does."""
    return tmp_path_factory.mktemp("program") / "runsc"


@pytest.fixture(scope="module")
def pretending(program: Path) -> Iterator[PrivateEngine]:
    """An engine with a runtime that is called runsc and is something else."""
    become(program, BROKEN)
    with private_engine(gvisor=True, runsc=program) as made:
        yield made


@pytest.fixture
def own(pretending: PrivateEngine, tmp_path: Path) -> Iterator[Sandbox]:
    engine = Engine(pretending.host, timeout_s=60)
    sandbox = make_sandbox(tmp_path / "home", engine, runtime="auto")
    with nothing_left(sandbox):
        yield sandbox
    engine.close()


def become(program: Path, script: str) -> None:
    """Another program of the same name."""
    aside = program.with_suffix(".new")
    aside.write_text(f"#!/bin/sh\n{script}\n")
    aside.chmod(0o755)
    aside.replace(program)


@pytest.mark.both_runtimes
async def test_auto_takes_gvisor_where_its_trial_cell_passes_and_runc_where_there_is_nothing_else(
    engine: Engine, image_id: str, tmp_path: Path, runtime: Runtime
) -> None:
    sandbox = make_sandbox(tmp_path / "home", engine, runtime="auto")
    with nothing_left(sandbox):
        wanted = "runsc" if "runsc" in engine.runtimes() else "runc"
        assert wanted == runtime
        assert await sandbox.choose_runtime(image_id) == wanted
        async with open_cell(sandbox, image_id=image_id, kind="run", deadline_s=5) as cell:
            assert cell.runtime == wanted
            assert cell.policy.runtime == wanted


async def test_auto_takes_runc_where_runsc_cannot_start_a_container_and_doctor_says_why(
    own: Sandbox, program: Path
) -> None:
    become(program, BROKEN)
    image_id = loaded_image(own.engine)
    assert await own.choose_runtime(image_id) == "runc"
    assert containers_of(own) == []
    found = doctor(own, "auto")
    assert (found["runsc"]["state"], found["runc"]["state"]) == ("absent", "ok")
    assert "`auto` takes runc" in found["runsc"]["detail"]
    assert found["runsc"]["fix"]
    assert doctor(own, "runsc")["runsc"]["state"] == "missing"


async def test_auto_takes_runc_where_what_is_called_runsc_runs_cells_on_the_hosts_kernel(
    own: Sandbox, program: Path
) -> None:
    become(program, RUNC)
    image_id = loaded_image(own.engine)
    trial = await own.trial("runsc", image_id)
    assert not trial.passed
    assert "the kernel is the host's own" in trial.message
    assert await own.choose_runtime(image_id) == "runc"
    assert "the kernel is the host's own" in doctor(own, "auto")["runsc"]["detail"]


async def test_a_runtime_that_failed_is_tried_again_after_an_hour_and_at_once_when_its_arguments_changed(
    own: Sandbox, program: Path
) -> None:
    become(program, BROKEN)
    image_id = loaded_image(own.engine)
    assert await own.choose_runtime(image_id) == "runc"
    tries = program.with_name("tries")
    become(program, f"echo x >>{tries}; exit 1")
    assert await own.choose_runtime(image_id) == "runc"
    assert await Sandbox(own.settings, SystemClock(), own.engine).choose_runtime(image_id) == "runc"
    assert not tries.exists()
    assert await replace(own, clock=LaterClock(), _trials={}, _chosen={}).choose_runtime(image_id) == "runc"
    assert tries.exists()


class LaterClock(SystemClock):
    """Two hours ahead."""

    def now(self) -> datetime:
        return super().now() + timedelta(hours=2)


def doctor(sandbox: Sandbox, runtime: str) -> dict[str, dict[str, str]]:
    """What `cloche doctor` finds on this engine, by name."""
    home = sandbox.settings.home.parent / f"doctor-{runtime}"
    if not home.exists():
        home_with_image(home)
    done = Commands(home, environment={"DOCKER_HOST": sandbox.engine.host, "CLOCHE_RUNTIME": runtime})(
        "doctor", "--json"
    )
    return {finding["name"]: finding for finding in done.data["findings"]}
