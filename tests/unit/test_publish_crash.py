"""A publisher killed at any named point leaves the old state or the new one, and whoever comes next completes it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.catalog import git, unfinished
from engine.catalog.objects import RefUpdate
from engine.catalog.refs import BRANCH, NOTES, ref
from engine.catalog.worktree import DestinationDirty
from engine.errors import StorageFull
from engine.gate.commit import Point, PublishedUnfinished
from engine.proc import run
from engine.settings import tool_environment
from tests.helpers.publish_process import killed_at
from tests.helpers.publishing import Publisher, package_files, write_package

BEFORE: list[Point] = ["locked", "made", "moved_in", "announced"]
AFTER: list[Point] = ["published", "finished"]


@pytest.fixture
def publisher(tmp_path: Path) -> Publisher:
    return Publisher(tmp_path)


def status(publisher: Publisher) -> str:
    return run(["git", "status", "-s"], env=tool_environment(), cwd=publisher.project("say")).stdout.decode()


def crash(publisher: Publisher, point: Point, **options: object) -> str:
    """Have a replacing publication killed; gives the tree id it was about."""
    directory = write_package(publisher.home.parent / "second", "say", package_files("say", **options))  # type: ignore[arg-type]
    killed_at(point, publisher.home.parent, directory)
    return str(directory)


# a project that is there


@pytest.mark.parametrize("point", BEFORE)
def test_killed_before_the_commit_point_nothing_happened(publisher: Publisher, point: Point) -> None:
    published = publisher.put("say")
    before = publisher.everything("say")
    crash(publisher, point, body='return "new"')
    assert publisher.everything("say") == before
    assert publisher.catalog.head("say") == published.revision
    assert [entry.revision for entry in publisher.catalog.list().entries] == [published.revision]
    assert publisher.catalog.list().problems == ()
    publisher.put("say", replace=True, body='return "third"')
    assert publisher.aside() == []
    assert len(publisher.catalog.log("say")) == 2


@pytest.mark.parametrize("point", AFTER)
def test_killed_after_the_commit_point_the_next_opener_completes_it(publisher: Publisher, point: Point) -> None:
    first = publisher.put("say")
    crash(publisher, point, body='return "new"')
    assert publisher.catalog.head("say") != first.revision
    assert publisher.aside() == []
    assert status(publisher) == ""
    assert b"new" in (publisher.project("say") / "workflow.py").read_bytes()
    assert publisher.catalog.gate_note("say", publisher.catalog.head("say")) is not None


def test_a_listing_completes_it_too(publisher: Publisher) -> None:
    publisher.put("say")
    crash(publisher, "published", body='return "new"')
    assert status(publisher) != ""
    listing = publisher.catalog.list()
    assert (len(listing.entries), listing.problems) == (1, ())
    assert status(publisher) == ""


def test_the_next_publisher_completes_it_too(publisher: Publisher) -> None:
    publisher.put("say")
    crash(publisher, "published", body='return "new"')
    publisher.put("say", replace=True, body='return "third"')
    assert len(publisher.catalog.log("say")) == 3
    assert status(publisher) == ""


def test_a_completion_that_was_killed_itself_is_completed(publisher: Publisher) -> None:
    publisher.put("say")
    crash(publisher, "published", body='return "new"', version="2.0")
    files = package_files("say", body='return "new"', version="2.0")
    (publisher.project("say") / "workflow.py").write_text(files["workflow.py"])
    publisher.catalog.head("say")
    assert status(publisher) == ""
    assert publisher.aside() == []


@pytest.mark.parametrize("path", ["workflow.py", "README.md", "notes.txt"])
def test_work_of_somebody_else_is_reported_and_kept(publisher: Publisher, path: str) -> None:
    publisher.put("say")
    crash(publisher, "published", body='return "new"')
    (publisher.project("say") / path).write_text("mine")
    listing = publisher.catalog.list()
    assert [(problem.name, problem.code) for problem in listing.problems] == [("say", "destination_dirty")]
    assert path in listing.problems[0].message
    assert b"new" in publisher.catalog.files("say", publisher.catalog.head("say"))["workflow.py"]
    with pytest.raises(DestinationDirty):
        publisher.put("say", replace=True, body='return "third"')
    assert (publisher.project("say") / path).read_text() == "mine"
    run(["git", "restore", "--staged", "--worktree", "."], env=tool_environment(), cwd=publisher.project("say"))
    run(["git", "clean", "-fdq"], env=tool_environment(), cwd=publisher.project("say"))
    assert publisher.catalog.list().problems == ()
    assert publisher.aside() == []


@pytest.mark.parametrize("moved", ["notes", "branch"])
def test_git_killed_between_the_two_refs_is_decided_by_the_branch(publisher: Publisher, moved: str) -> None:
    first = publisher.put("say")
    before = publisher.everything("say")
    crash(publisher, "announced", body='return "new"')
    project = publisher.project("say")
    intent = json.loads((publisher.catalog.projects / ".intents" / "say.json").read_text())
    if moved == "notes":
        git.update_refs(project, [RefUpdate(NOTES, intent["new_note"], intent["old_note"])])
        assert publisher.catalog.head("say") == first.revision
        assert publisher.everything("say") == before
    else:
        git.update_refs(project, [RefUpdate(BRANCH, intent["new_revision"], intent["old_revision"])])
        assert publisher.catalog.head("say") == intent["new_revision"]
        assert ref(project, NOTES) == intent["new_note"]
        assert status(publisher) == ""
    assert publisher.aside() == []


def test_the_intent_names_both_trees(publisher: Publisher) -> None:
    first = publisher.put("say")
    crash(publisher, "announced", body='return "new"')
    intent = json.loads((publisher.catalog.projects / ".intents" / "say.json").read_text())
    assert (intent["version"], intent["old_tree"]) == (1, first.tree_id)
    assert len(intent["new_tree"]) == 40
    assert intent["new_tree"] != first.tree_id


def test_a_branch_that_the_owner_moved_meanwhile_is_left_alone(publisher: Publisher) -> None:
    publisher.put("say")
    crash(publisher, "published", body='return "new"')
    project = publisher.project("say")
    env = {**tool_environment(), "HOME": str(publisher.home)}
    identity = ["-c", "user.name=x", "-c", "user.email=x"]
    run(["git", *identity, "commit", "-q", "--allow-empty", "-m", "mine"], env=env, cwd=project)
    mine = run(["git", "rev-parse", "HEAD"], env=env, cwd=project).stdout.decode().strip()
    assert publisher.catalog.head("say") == mine
    assert publisher.aside() == []


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"workflow_id": "say"}'])
def test_a_damaged_intent_is_reported_and_stops_publishing(publisher: Publisher, text: str) -> None:
    publisher.put("say")
    path = publisher.catalog.projects / ".intents" / "say.json"
    path.write_text(text)
    assert [problem.code for problem in publisher.catalog.list().problems] == ["intent_damaged"]
    with pytest.raises(unfinished.IntentDamaged):
        publisher.put("say", replace=True, body='return "b"')
    assert path.read_text() == text


def test_a_living_publisher_is_not_finished_by_a_reader(publisher: Publisher) -> None:
    publisher.put("say")
    seen: list[str] = []

    def look(point: Point) -> None:
        if point == "announced":
            seen.append(publisher.catalog.head("say"))
            seen.extend(publisher.aside())

    first = publisher.catalog.head("say")
    publisher.publish(publisher.write("say", body='return "b"'), replace=True, reached=look)
    assert seen[0] == first
    assert "say.json" in seen


# a new project


@pytest.mark.parametrize("point", ["locked", "made", "announced"])
def test_a_new_project_killed_before_the_commit_point_does_not_exist(publisher: Publisher, point: Point) -> None:
    crash(publisher, point)
    assert not publisher.project("say").exists()
    assert publisher.catalog.list().entries == ()
    assert publisher.catalog.list().problems == ()
    publisher.put("say")
    assert publisher.aside() == []


@pytest.mark.parametrize("point", AFTER)
def test_a_new_project_killed_after_it_is_whole_and_authorised(publisher: Publisher, point: Point) -> None:
    crash(publisher, point)
    assert [entry.workflow_id for entry in publisher.catalog.list().entries] == ["say"]
    assert publisher.aside() == []
    assert status(publisher) == ""


# a full disk


@pytest.fixture
def small_disk(publisher: Publisher) -> Iterator[Path]:
    """A disk of 2 MiB where the projects lie."""
    publisher.catalog.projects.mkdir(parents=True)
    run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(publisher.catalog.projects)], env=tool_environment())
    try:
        yield publisher.catalog.projects
    finally:
        run(["umount", "-l", str(publisher.catalog.projects)], env=tool_environment())


def fill(disk: Path, *, free_kib: int) -> None:
    """Leave about so much room."""
    filler = disk / ".filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    size = filler.stat().st_size - free_kib * 1024
    with filler.open("r+b") as file:
        file.truncate(max(size, 0))


def test_on_a_full_disk_a_publication_happens_whole_or_not_at_all(publisher: Publisher, small_disk: Path) -> None:
    publisher.put("say")
    seen: set[str] = set()
    for number, free_kib in enumerate((0, 4, 8, 16, 24, 32, 36, 40, 44, 48, 52, 56, 60, 64, 72, 96)):
        before, head = publisher.everything("say"), publisher.catalog.head("say")
        fill(small_disk, free_kib=free_kib)
        try:
            publisher.put("say", replace=True, body=f'return "{number}"')
            outcome = "published"
        except StorageFull as error:
            outcome = error.code
            (small_disk / ".filler").unlink()
            assert publisher.everything("say") == before
        except PublishedUnfinished as error:
            outcome = error.code
        (small_disk / ".filler").unlink(missing_ok=True)
        assert (publisher.catalog.head("say") == head) == (outcome == "storage_full")
        assert [name for name in publisher.aside() if name != ".filler"] == []
        assert status(publisher) == ""
        seen.add(outcome)
    assert {"storage_full", "published"} <= seen


def test_a_new_project_on_a_full_disk_does_not_come_to_be(publisher: Publisher, small_disk: Path) -> None:
    for free_kib in (0, 16, 32, 48):
        fill(small_disk, free_kib=free_kib)
        with pytest.raises(StorageFull):
            publisher.put("say")
        assert not publisher.project("say").exists()
        (small_disk / ".filler").unlink()
        assert publisher.aside() == []
    publisher.put("say")
