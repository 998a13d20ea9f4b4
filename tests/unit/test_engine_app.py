"""The object graph: what it loads, and what it refuses before anything is asked of an engine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest

from engine.app import App, open_app
from engine.catalog.repos import NotAuthorised, UnknownWorkflow
from engine.errors import NotFound, RunCancelled, SandboxUnavailable, UsageError
from engine.gate.commit import NameTaken
from engine.package.validate import InvalidCandidate
from engine.run.permissions import granted
from engine.run.start import Inputs, SnapshotChanged, WorkspaceGone, check_snapshot, new_spec
from engine.run.store import RunNotFound
from engine.settings import Settings
from tests.helpers.publishing import Publisher, package_files, write_package

HEAVY = {"anyio", "asyncio", "docker", "git", "jsonschema_rs", "re2", "requests", "structlog", "tarfile", "tomlkit"}


@pytest.fixture
def publisher(tmp_path: Path) -> Publisher:
    return Publisher(tmp_path)


@pytest.fixture
def app(publisher: Publisher) -> Iterator[App]:
    """A home with the package `say`, and no engine."""
    publisher.put("say")
    with open_app(
        Settings(home=publisher.home, docker_host=f"unix://{publisher.home}/no.sock", value_bytes=4096)
    ) as opened:
        yield opened


@pytest.fixture
def started(app: App, tmp_path: Path) -> str:
    """A run of `say` that was created and not executed."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    inputs = Inputs.checked("hello", session="default", workspace=workspace, model="")
    snapshot = app.snapshots.for_revision(*app.catalog.resolve("say"))
    return app.runs.create(new_spec(snapshot, inputs, settings=app.settings, now=app.clock.now())).run_id


def resume(app: App, run_id: str, **choices: str) -> None:
    anyio.run(lambda: app.resume(run_id, **choices))  # type: ignore[arg-type]


@pytest.mark.parametrize("words", [["runs", "list"], ["workflows", "list"], ["runs", "show"]])
def test_looking_loads_no_engine_client_and_no_library_of_another_layer(tmp_path: Path, words: list[str]) -> None:
    code = (
        "import sys\nfrom cli.main import main\ntry:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    environment = {"PATH": os.environ["PATH"], "CLOCHE_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, "-c", code, *words], env=environment, check=True, capture_output=True, text=True
    )
    assert HEAVY & set(done.stderr.split()) == set()


def test_what_is_wrong_with_a_package_is_told_before_an_engine_is_asked(app: App, tmp_path: Path) -> None:
    broken = write_package(tmp_path, "other", {**package_files("other"), "workflow.py": "import os\n"})
    with pytest.raises(InvalidCandidate):
        anyio.run(app.publish, broken)
    with pytest.raises(NameTaken):
        anyio.run(app.publish, write_package(tmp_path, "say", package_files("say", version="2.0")))
    with pytest.raises(SandboxUnavailable):
        anyio.run(app.test, write_package(tmp_path, "fine", package_files("fine")))


def test_inputs_that_cannot_be_used_make_no_run(app: App, tmp_path: Path) -> None:
    nameless = tmp_path / os.fsdecode(b"\xff")
    nameless.mkdir()
    for wrong in (
        {"task": object()},
        {"task": "x" * 4096},
        {"session": "A b"},
        {"workspace": tmp_path / "gone"},
        {"workspace": nameless},
        {"on_unknown": "perhaps"},
    ):
        with pytest.raises(UsageError):
            anyio.run(lambda wrong=wrong: app.run("say", **wrong))  # type: ignore[misc]
    assert app.runs.list() == ([], [])


def test_without_an_engine_or_image_no_run_is_made(app: App, tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailable):
        anyio.run(lambda: app.run("say", "hello", workspace=tmp_path))
    assert app.runs.list() == ([], [])


def test_a_run_is_not_resumed_where_its_workspace_is_gone(app: App, started: str) -> None:
    Path(app.view(started).workspace).rmdir()
    with pytest.raises(WorkspaceGone, match="no directory any more"):
        resume(app, started)
    assert app.view(started).generations == []


def test_a_run_is_not_resumed_when_its_package_was_revoked_or_removed(app: App, started: str) -> None:
    record = app.catalog.directory / "sources.json"
    text = record.read_text()
    record.write_text(text.replace('"revoked": []', '"revoked": [{"scope": "programs", "path": "workflow/say"}]'))
    with pytest.raises(NotAuthorised, match="revoked"):
        resume(app, started)
    record.write_text(text)
    (app.catalog.projects / "say").rename(app.catalog.projects / "moved")
    with pytest.raises(UnknownWorkflow, match="say"):
        resume(app, started)
    assert app.view(started).generations == []


def test_a_snapshot_that_was_lost_or_damaged_is_made_again_for_a_resume(app: App, started: str) -> None:
    digest = app.view(started).snapshot_digest
    snapshot = app.settings.home / "snapshots" / digest
    file = snapshot / "workflows" / "say" / "workflow.py"
    whole = file.read_bytes()
    file.chmod(0o644)
    file.write_bytes(b"damaged")
    with pytest.raises(SandboxUnavailable):  # it comes that far, and there is no image here
        resume(app, started)
    assert file.read_bytes() == whole


def test_a_run_does_not_go_on_with_other_bytes_than_it_began_with(app: App, started: str) -> None:
    run = app.runs.open(started)
    other = run.spec.model_copy(update={"snapshot_digest": "0" * 64})
    with pytest.raises(SnapshotChanged, match="other bytes"):
        check_snapshot(other, app.snapshots.for_revision("say", run.spec.revision))
    check_snapshot(run.spec, app.snapshots.for_revision("say", run.spec.revision))


def test_a_cancelled_run_and_one_that_is_not_there_are_not_resumed(app: App, started: str) -> None:
    anyio.run(app.cancel, started)
    with pytest.raises(RunCancelled):
        resume(app, started)
    with pytest.raises(RunNotFound):
        resume(app, "20200101T000000Z-00000000")


def test_the_newest_run_is_found_and_no_run_is_said(app: App) -> None:
    with pytest.raises(NotFound, match="no run yet"):
        app.runs.newest()


def test_old_snapshots_are_removed_unless_a_run_was_made_from_them(
    app: App, started: str, publisher: Publisher
) -> None:
    publisher.put("unused")
    snapshots = app.settings.home / "snapshots"
    used = app.view(started).snapshot_digest
    old = (datetime.now(UTC) - timedelta(days=2)).timestamp()
    for path in snapshots.iterdir():
        os.utime(path, (old, old))
    app.cells._collect_snapshots()
    assert [path.name for path in snapshots.iterdir() if path.is_dir()] == [used]


def test_a_run_gets_what_its_package_declares_and_its_session_grants() -> None:
    assert granted(["network", "workspace.read", "program:search"]) == ("workspace.read", "program:search")
    assert granted(["workspace.read", "ask"], session=frozenset({"ask"})) == ("ask",)
    assert granted([]) == ()
