"""What a publication leaves when it succeeds, and that it leaves nothing when it is refused."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio
import pytest

import engine
from engine.catalog.refs import CorruptEntry
from engine.catalog.repos import NotAuthorised
from engine.catalog.sources import SourceRevoked, SourcesDamaged
from engine.catalog.worktree import DestinationDirty
from engine.errors import ExchangeError, NotFound, SandboxUnavailable
from engine.gate.checks import TestsFailed
from engine.gate.commit import BaseMoved, NameTaken, Point, RepositoryBusy, RevisionUnchanged
from engine.gate.publish import gate_directory, publish
from engine.package.contract import GatedPackage, StageSkipped, build_gated
from engine.package.freeze import freeze
from engine.package.validate import InvalidCandidate, require_valid
from engine.proc import run
from engine.settings import tool_environment
from tests.helpers.gate_cells import END, case, ended, passing, saying
from tests.helpers.publishing import Publisher, package_files
from tests.unit.test_gate_report import report


@pytest.fixture
def publisher(tmp_path: Path) -> Publisher:
    return Publisher(tmp_path)


def git(publisher: Publisher, *argv: str, name: str = "say") -> str:
    return run(["git", *argv], env=tool_environment(), cwd=publisher.project(name)).stdout.decode()


# what success leaves


def test_a_new_project_has_one_commit_on_main_by_a_neutral_author(publisher: Publisher) -> None:
    published = publisher.put("say", version="1.2")
    assert git(publisher, "log", "--format=%D|%an <%ae>|%cn <%ce>|%s", "main").splitlines() == [
        "HEAD -> main|Cloche <cloche@localhost>|Cloche <cloche@localhost>|Publish say 1.2"
    ]
    assert git(publisher, "rev-parse", "HEAD", "HEAD^{tree}").split() == [published.revision, published.tree_id]


def test_the_work_tree_and_index_are_those_of_the_commit(publisher: Publisher) -> None:
    directory = publisher.write("say")
    publisher.publish(directory)
    assert git(publisher, "status", "--porcelain", "--ignored") == ""
    for path, text in package_files("say").items():
        assert (publisher.project("say") / path).read_text() == text


def test_what_git_holds_is_sound(publisher: Publisher) -> None:
    publisher.put("say")
    publisher.put("say", replace=True, body='return "b"')
    assert git(publisher, "fsck", "--strict", "--full", "--no-dangling") == ""


def test_nothing_is_left_aside(publisher: Publisher) -> None:
    publisher.put("say")
    publisher.put("say", replace=True, body='return "b"')
    assert publisher.aside() == []
    assert not list((publisher.project("say") / ".git").glob("cloche-*"))


def test_success_authorises_the_source(publisher: Publisher) -> None:
    publisher.put("say")
    document = json.loads((publisher.home / "catalog" / "sources.json").read_text())
    assert document["entries"] == [{"scope": "programs", "path": "workflow/say"}]


def test_the_state_is_for_its_owner_alone(publisher: Publisher) -> None:
    publisher.put("say")
    for path in (publisher.home, publisher.home / "catalog", publisher.catalog.projects):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700, path


def test_a_replacement_is_one_commit_on_top(publisher: Publisher) -> None:
    first = publisher.put("say").revision
    second = publisher.put("say", replace=True, body='return "b"').revision
    assert git(publisher, "rev-list", "main").split() == [second, first]
    assert git(publisher, "status", "--porcelain") == ""


def test_each_revision_keeps_its_report(publisher: Publisher) -> None:
    first = publisher.put("say").revision
    second = publisher.put("say", replace=True, body='return "b"').revision
    assert publisher.catalog.gate_note("say", first) != publisher.catalog.gate_note("say", second) is not None


def test_files_and_folders_that_are_gone_leave_the_work_tree(publisher: Publisher) -> None:
    directory = publisher.write("say")
    (directory / "resources").mkdir()
    (directory / "resources" / "a.txt").write_text("a")
    publisher.publish(directory)
    publisher.put("say", replace=True)
    assert not (publisher.project("say") / "resources").exists()
    assert git(publisher, "status", "--porcelain", "--ignored") == ""


def test_replace_is_leave_not_demand(publisher: Publisher) -> None:
    assert publisher.put("say", replace=True).revision == publisher.catalog.head("say")


def test_odd_but_allowed_names_and_bytes_are_committed_exactly(publisher: Publisher) -> None:
    directory = publisher.write("say")
    odd = ['with "quotes".txt', "ünï ©ode.txt", " lead.txt", "-dash.txt", "a\u2028b.txt".replace("\u2028", "'")]
    (directory / "resources").mkdir()
    for number, name in enumerate(odd):
        (directory / "resources" / name).write_bytes(b"line\r\nend" * number)
    published = publisher.publish(directory)
    files = publisher.catalog.files("say", published.revision)
    assert {path.removeprefix("resources/") for path in files if path.startswith("resources/")} == set(odd)
    assert git(publisher, "status", "--porcelain") == ""


def test_the_bytes_published_are_those_that_were_frozen(publisher: Publisher) -> None:
    directory = publisher.write("say")
    frozen = freeze(directory).tree_id
    publisher.cells.before = lambda: (directory / "workflow.py").write_text("raise SystemExit\n") and None
    published = publisher.publish(directory)
    assert published.tree_id == frozen
    assert b"raise SystemExit" not in publisher.catalog.files("say", published.revision)["workflow.py"]


def test_testing_alone_publishes_nothing(publisher: Publisher) -> None:
    directory = publisher.write("say")
    gated = anyio.run(lambda: gate_directory(directory, services=publisher.services))
    assert gated.report.passed
    assert not publisher.catalog.projects.exists()


# refusals of a new package


def check_new_is_refused(publisher: Publisher, error: type[Exception], directory: Path | None = None) -> None:
    with pytest.raises(error):
        publisher.publish(directory or publisher.write("say"))
    assert not publisher.project("say").exists()
    assert not publisher.catalog.projects.exists() or publisher.aside() == []
    assert not (publisher.home / "catalog" / "sources.json").exists()


def test_a_failing_test_publishes_nothing(publisher: Publisher) -> None:
    publisher.cells.scripts = [saying(case(0, "failed"), END)]
    check_new_is_refused(publisher, TestsFailed)


def test_a_missing_sandbox_publishes_nothing(publisher: Publisher) -> None:
    publisher.cells.unavailable = SandboxUnavailable("no engine")
    check_new_is_refused(publisher, SandboxUnavailable)


def test_a_sandbox_that_fails_publishes_nothing(publisher: Publisher) -> None:
    publisher.cells.scripts = [saying(case(0), ExchangeError("frame.not_json"))]
    check_new_is_refused(publisher, ExchangeError)


def test_an_invalid_package_publishes_nothing_and_opens_no_cell(publisher: Publisher) -> None:
    directory = publisher.write("say")
    (directory / "setup.py").write_text("")
    check_new_is_refused(publisher, InvalidCandidate, directory)
    assert publisher.cells.opened == 0


def test_a_directory_that_is_not_there_publishes_nothing(publisher: Publisher, tmp_path: Path) -> None:
    check_new_is_refused(publisher, NotFound, tmp_path / "say")


def test_a_cancelled_gate_publishes_nothing(publisher: Publisher) -> None:
    publisher.cells.scripts = [saying(case(0))]
    directory = publisher.write("say")

    async def cancelled() -> None:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(partial(publish, directory, services=publisher.services))
                while not publisher.cells.jobs:
                    await anyio.sleep(0.01)
                group.cancel_scope.cancel()

    anyio.run(cancelled)
    assert publisher.cells.closed == 1
    assert not publisher.project("say").exists()


def test_a_cancellation_inside_the_commit_waits_for_its_end(publisher: Publisher) -> None:
    directory = publisher.write("say")

    async def cancelled() -> None:
        with anyio.CancelScope() as scope:

            def cancel(point: Point) -> None:
                if point == "made":
                    anyio.from_thread.run_sync(scope.cancel)

            await publish(directory, services=publisher.services, reached=cancel)
        assert scope.cancel_called

    anyio.run(cancelled)
    assert publisher.aside() == []
    assert git(publisher, "status", "--porcelain") == ""
    assert [entry.workflow_id for entry in publisher.catalog.list().entries] == ["say"]


# refusals about an existing package


def check_refused(publisher: Publisher, error: type[Exception], act: Callable[[], object], *, cells: int) -> Exception:
    """`act` fails with `error`, having opened so many cells, and the project is as before."""
    before, opened = publisher.everything("say"), publisher.cells.opened
    with pytest.raises(error) as caught:
        act()
    assert publisher.everything("say") == before
    assert publisher.aside() == []
    assert publisher.cells.opened - opened == cells
    return caught.value


def new_revision(publisher: Publisher) -> Callable[[], object]:
    return lambda: publisher.put("say", replace=True, body='return "new"')


def test_an_existing_name_is_taken_without_replace(publisher: Publisher) -> None:
    publisher.put("say")
    check_refused(publisher, NameTaken, lambda: publisher.put("say", body='return "b"'), cells=0)


@pytest.mark.parametrize("replace", [True, False])
def test_equal_bytes_and_pins_are_an_unchanged_revision(publisher: Publisher, replace: bool) -> None:
    publisher.put("say")
    check_refused(publisher, RevisionUnchanged, lambda: publisher.put("say", replace=replace), cells=0)


def test_equal_bytes_with_other_pins_are_a_new_revision(publisher: Publisher) -> None:
    publisher.put("low")
    first = publisher.put("say", imports=["low"])
    publisher.put("low", replace=True, body='return "2"')
    second = publisher.put("say", imports=["low"], replace=True, repin=True)
    assert first.tree_id != second.tree_id


def test_a_failing_test_leaves_the_active_revision(publisher: Publisher) -> None:
    publisher.put("say")
    publisher.cells.scripts = [passing, passing, saying(case(0, "failed"), END)]
    check_refused(publisher, TestsFailed, new_revision(publisher), cells=1)


def test_a_lost_cell_leaves_the_active_revision(publisher: Publisher) -> None:
    publisher.put("say")
    publisher.cells.end = ended(next(cause for cause in type(ended().cause) if cause.value == "engine_lost"))
    check_refused(publisher, Exception, new_revision(publisher), cells=1)


def test_a_base_that_moved_during_the_gate_is_a_conflict_and_nothing_is_lost(publisher: Publisher) -> None:
    publisher.put("say")
    other = Publisher(publisher.home.parent)
    revisions: list[str] = []

    def somebody_else() -> None:
        if not revisions:
            other.sources = publisher.home.parent / "theirs"
            revisions.append(other.put("say", replace=True, body='return "theirs"').revision)

    publisher.cells.before = somebody_else
    with pytest.raises(BaseMoved):
        publisher.put("say", replace=True, body='return "mine"')
    assert publisher.catalog.head("say") == revisions[0]
    assert len(publisher.catalog.log("say")) == 2
    assert publisher.aside() == []
    assert git(publisher, "status", "--porcelain") == ""


def test_a_name_taken_during_the_gate_is_a_conflict(publisher: Publisher) -> None:
    other = Publisher(publisher.home.parent)
    other.sources = publisher.home.parent / "theirs"

    def somebody_else() -> None:
        if not publisher.project("say").exists():
            other.put("say", body='return "theirs"')

    publisher.cells.before = somebody_else
    with pytest.raises(BaseMoved):
        publisher.put("say", body='return "mine"')
    assert b"theirs" in publisher.catalog.files("say", publisher.catalog.head("say"))["workflow.py"]


def test_a_revoked_package_is_not_published(publisher: Publisher) -> None:
    publisher.put("say")
    path = publisher.home / "catalog" / "sources.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "revoked": document["entries"]}))
    check_refused(publisher, SourceRevoked, new_revision(publisher), cells=0)


def test_a_package_revoked_during_the_gate_is_not_published(publisher: Publisher) -> None:
    publisher.put("say")
    path = publisher.home / "catalog" / "sources.json"
    document = json.loads(path.read_text())
    publisher.cells.before = lambda: path.write_text(json.dumps({**document, "revoked": document["entries"]})) and None
    check_refused(publisher, SourceRevoked, new_revision(publisher), cells=2)
    with pytest.raises(NotAuthorised):
        publisher.catalog.head("say")


def test_a_damaged_record_stops_before_the_gate(publisher: Publisher) -> None:
    publisher.put("say")
    (publisher.home / "catalog" / "sources.json").write_text("{")
    check_refused(publisher, SourcesDamaged, new_revision(publisher), cells=0)


@pytest.mark.parametrize("what", ["file", "link", "dangling", "old_format"])
def test_something_else_under_the_name_is_damage_and_stays(publisher: Publisher, what: str) -> None:
    place = publisher.project("say")
    place.parent.mkdir(parents=True)
    if what == "file":
        place.write_text("mine")
    elif what == "old_format":
        place.mkdir()
        (place / "code.py").write_text("SINGLE")
    else:
        place.symlink_to("/etc" if what == "link" else "/nowhere")
    before = sorted(os.lstat(path).st_ino for path in (place, *place.parent.iterdir()))
    with pytest.raises(CorruptEntry):
        publisher.put("say", replace=True)
    assert sorted(os.lstat(path).st_ino for path in (place, *place.parent.iterdir())) == before


# a destination with changes of its own


def _edit(project: Path) -> None:
    (project / "workflow.py").write_text("# mine\n")


def _delete(project: Path) -> None:
    (project / "README.md").unlink()


def _untracked(project: Path) -> None:
    (project / "notes.txt").write_text("mine")


def _untracked_in_folder(project: Path) -> None:
    (project / "helpers").mkdir()
    (project / "helpers" / "mine.py").write_text("x = 1\n")


def _link(project: Path) -> None:
    (project / "README.md").unlink()
    (project / "README.md").symlink_to("/etc/hostname")


def _linked_folder(project: Path) -> None:
    (project / "steps").rename(project.parent.parent / "steps")
    (project / "steps").symlink_to(project.parent.parent / "steps")


def _fifo(project: Path) -> None:
    os.mkfifo(project / "pipe")


def _staged(project: Path) -> None:
    run(["git", "rm", "-q", "--cached", "README.md"], env=tool_environment(), cwd=project)


def _bytecode_neighbour(project: Path) -> None:
    (project / "__pycache__").mkdir()
    (project / "__pycache__" / "mine.txt").write_text("mine")


DIRT = {
    _edit: "workflow.py",
    _delete: "README.md",
    _untracked: "notes.txt",
    _untracked_in_folder: "helpers/mine.py",
    _link: "README.md",
    _linked_folder: "steps",
    _fifo: "pipe",
    _staged: ".git/index",
    _bytecode_neighbour: "__pycache__/mine.txt",
}


@pytest.mark.parametrize(("dirty", "named"), DIRT.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_changes_in_the_destination_are_named_and_kept(
    publisher: Publisher, dirty: Callable[[Path], None], named: str
) -> None:
    publisher.put("say")
    dirty(publisher.project("say"))
    error = check_refused(publisher, DestinationDirty, new_revision(publisher), cells=2)
    assert isinstance(error, DestinationDirty)
    assert named in error.paths
    assert named in error.message


def test_what_packages_ignore_is_no_change(publisher: Publisher) -> None:
    publisher.put("say")
    project = publisher.project("say")
    (project / "__pycache__").mkdir()
    (project / "__pycache__" / "workflow.cpython-311.pyc").write_bytes(b"x")
    (project / ".DS_Store").write_bytes(b"x")
    new_revision(publisher)()
    assert len(publisher.catalog.log("say")) == 2


def test_an_index_lock_of_another_git_is_named(publisher: Publisher) -> None:
    publisher.put("say")
    (publisher.project("say") / ".git" / "index.lock").write_text("")
    error = check_refused(publisher, DestinationDirty, new_revision(publisher), cells=2)
    assert ".git/index.lock" in str(error)


@pytest.mark.parametrize("lock", ["refs/heads/main.lock", "refs/notes/gate.lock"])
def test_a_ref_locked_by_another_git_changes_nothing(publisher: Publisher, lock: str) -> None:
    publisher.put("say")
    path = publisher.project("say") / ".git" / lock
    path.write_text("")
    error = check_refused(publisher, RepositoryBusy, new_revision(publisher), cells=2)
    assert "lock" in str(error)
    packs = list((publisher.project("say") / ".git" / "objects" / "pack").glob("*.pack"))
    assert len(packs) == 1
    path.unlink()
    new_revision(publisher)()


# nothing gets around the gate


def test_a_gated_package_cannot_be_made_by_hand(publisher: Publisher) -> None:
    package = require_valid(freeze(publisher.write("say")))
    with pytest.raises(StageSkipped):
        GatedPackage(package, report(), seal=None)
    with pytest.raises(StageSkipped):
        build_gated(package, report=report())


def test_only_the_gate_builds_gated_packages_and_only_publish_commits() -> None:
    callers: dict[str, set[str]] = {
        "build_gated(": set(),
        "build_published(": set(),
        " commit(\n": set(),
        "update_refs(": set(),
    }
    root = Path(next(iter(engine.__path__)))
    for path in root.rglob("*.py"):
        text = re.sub(r"def \w+\(", "", path.read_text())
        for name, found in callers.items():
            if name in text:
                found.add(str(path.relative_to(root)))
    assert callers["build_gated("] == {"gate/checks.py"}
    assert callers["build_published("] == {"gate/commit.py"}
    assert callers["update_refs("] == {"gate/commit.py", "catalog/unfinished.py"}


def test_cells_are_opened_for_the_snapshot_of_the_very_bytes(publisher: Publisher) -> None:
    published = publisher.put("say")
    snapshot = publisher.services.snapshots.for_revision("say", published.revision)
    assert set(publisher.cells.snapshots) == {snapshot.path}
