"""Reading the catalog: what is listed, what is found by which name, and what damage looks like."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.catalog.refs import CorruptEntry
from engine.catalog.repos import (
    AmbiguousRevision,
    BadReference,
    NotAuthorised,
    UnknownRevision,
    UnknownWorkflow,
)
from engine.catalog.sources import SourcesDamaged
from engine.proc import run
from engine.settings import tool_environment
from tests.helpers.publishing import Publisher


@pytest.fixture
def publisher(tmp_path: Path) -> Publisher:
    return Publisher(tmp_path)


def change_sources(publisher: Publisher, **fields: object) -> None:
    path = publisher.home / "catalog" / "sources.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def test_an_empty_home_lists_nothing_and_is_not_created(publisher: Publisher) -> None:
    listing = publisher.catalog.list()
    assert (listing.entries, listing.problems) == ((), ())
    assert not publisher.home.exists()


def test_a_listing_gives_metadata_and_revision_of_one_commit_by_id(publisher: Publisher) -> None:
    publisher.put("two")
    old = publisher.put("one", version="1.0")
    new = publisher.put("one", version="2.0", replace=True)
    entries = publisher.catalog.list().entries
    assert [entry.workflow_id for entry in entries] == ["one", "two"]
    assert (entries[0].revision, entries[0].tree_id) == (new.revision, new.tree_id)
    assert entries[0].summary.version == "2.0"
    assert old.revision != new.revision


def test_an_edited_work_tree_changes_nothing_that_is_listed(publisher: Publisher) -> None:
    published = publisher.put("say")
    (publisher.project("say") / "pyproject.toml").write_text("[project]\nname = 'other'\n")
    (entry,) = publisher.catalog.list().entries
    assert (entry.revision, entry.summary.name) == (published.revision, "say")


def test_many_packages_are_listed_whole(publisher: Publisher) -> None:
    publisher.put("say")
    for number in range(120):
        copy = publisher.project(f"say_{number}")
        shutil.copytree(publisher.project("say"), copy)
    rows = [{"scope": "programs", "path": f"workflow/say_{number}"} for number in range(120)]
    change_sources(publisher, entries=rows)
    listing = publisher.catalog.list()
    assert len(listing.entries) == 120
    assert [problem.name for problem in listing.problems] == ["say"]


def _no_git(project: Path) -> None:
    shutil.rmtree(project / ".git")


def _link(project: Path) -> None:
    moved = project.with_name(".moved")
    project.rename(moved)
    project.symlink_to(moved)


def _git_file(project: Path) -> None:
    (project / ".git").rename(project.with_name(".elsewhere"))
    (project / ".git").write_text("gitdir: ../.elsewhere\n")


def _detached(project: Path) -> None:
    (project / ".git" / "HEAD").write_text("0" * 40 + "\n")


def _unborn(project: Path) -> None:
    (project / ".git" / "refs" / "heads" / "main").unlink()


def _nonsense(project: Path) -> None:
    (project / ".git" / "refs" / "heads" / "main").write_text("x" * 40 + "\n")


def _missing_commit(project: Path) -> None:
    (project / ".git" / "refs" / "heads" / "main").write_text("1" * 40 + "\n")


def _damaged_pack(project: Path) -> None:
    for pack in (project / ".git" / "objects" / "pack").glob("*.pack"):
        pack.chmod(0o600)
        data = bytearray(pack.read_bytes())
        data[12:-20] = b"\xff" * (len(data) - 32)
        pack.write_bytes(data)


def _no_objects(project: Path) -> None:
    shutil.rmtree(project / ".git" / "objects")


DAMAGES = [
    _no_git,
    _link,
    _git_file,
    _detached,
    _unborn,
    _nonsense,
    _missing_commit,
    _damaged_pack,
    _no_objects,
]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_entry_is_skipped_and_named_and_hides_no_other(
    publisher: Publisher, damage: Callable[[Path], None]
) -> None:
    publisher.put("good", body='return "good"')
    publisher.put("bad", body='return "bad"')
    damage(publisher.project("bad"))
    listing = publisher.catalog.list()
    assert [entry.workflow_id for entry in listing.entries] == ["good"]
    assert [(problem.name, problem.code) for problem in listing.problems] == [("bad", "corrupt_entry")]
    with pytest.raises(CorruptEntry, match="bad"):
        publisher.catalog.show("bad")


def test_stray_files_and_folders_are_named(publisher: Publisher) -> None:
    publisher.put("good")
    (publisher.catalog.projects / "Not An Id").mkdir()
    (publisher.catalog.projects / "stray").write_text("x")
    names = [problem.name for problem in publisher.catalog.list().problems]
    assert names == ["Not An Id", "stray"]


def test_packed_refs_are_read(publisher: Publisher) -> None:
    published = publisher.put("say")
    run(["git", "pack-refs", "--all", "--prune"], env=tool_environment(), cwd=publisher.project("say"))
    assert not (publisher.project("say") / ".git" / "refs" / "heads" / "main").exists()
    assert publisher.catalog.head("say") == published.revision
    assert publisher.catalog.gate_note("say", published.revision) is not None


def test_a_revision_is_found_by_seven_digits_or_more(publisher: Publisher) -> None:
    first = publisher.put("say").revision
    second = publisher.put("say", replace=True, body='return "b"').revision
    resolve = publisher.catalog.resolve
    assert resolve("say") == ("say", second)
    assert resolve(f"say@{first[:7]}") == ("say", first)
    assert resolve(f"say@{first}") == ("say", first)


@pytest.mark.parametrize(
    "reference", ["", "Say", "say@", "say@abc", "say@HEAD", "say@abcdefg", "../say", "say@" + "a" * 41]
)
def test_what_is_no_reference_is_refused(publisher: Publisher, reference: str) -> None:
    publisher.put("say")
    with pytest.raises(BadReference):
        publisher.catalog.resolve(reference)


def test_unknown_names_and_revisions_are_not_found(publisher: Publisher) -> None:
    publisher.put("say")
    with pytest.raises(UnknownWorkflow):
        publisher.catalog.resolve("other")
    with pytest.raises(UnknownRevision):
        publisher.catalog.resolve("say@" + "0" * 40)


def test_a_commit_that_the_branch_does_not_reach_was_never_published(publisher: Publisher) -> None:
    first = publisher.put("say").revision
    second = publisher.put("say", replace=True, body='return "b"').revision
    run(["git", "update-ref", "refs/heads/main", first], env=tool_environment(), cwd=publisher.project("say"))
    with pytest.raises(UnknownRevision):
        publisher.catalog.resolve(f"say@{second}")


def test_a_short_revision_that_fits_two_is_ambiguous(publisher: Publisher) -> None:
    """Two empty commits whose ids share seven digits, found by trying times of commit."""
    publisher.put("say")
    head = publisher.catalog.head("say")
    twins = "".join(
        f"commit refs/heads/{at}\nmark :{at}\ncommitter x <x> {at} +0000\ndata 0\n\n" for at in (4013, 10026)
    )
    merge = f"commit refs/heads/main\ncommitter x <x> 1 +0000\ndata 0\nfrom {head}\nmerge :4013\nmerge :10026\n"
    project = publisher.project("say")
    run(["git", "fast-import", "--quiet"], env=tool_environment(), cwd=project, stdin=(twins + merge).encode())
    first, second = (
        run(["git", "rev-parse", name], env=tool_environment(), cwd=project).stdout.decode().strip()
        for name in ("refs/heads/4013", "refs/heads/10026")
    )
    assert first[:7] == second[:7]
    with pytest.raises(AmbiguousRevision):
        publisher.catalog.resolve(f"say@{first[:7]}")
    assert publisher.catalog.resolve(f"say@{first[:12]}") == ("say", first)


def test_an_unauthorised_package_is_not_active_but_can_be_looked_at(publisher: Publisher) -> None:
    publisher.put("say")
    change_sources(publisher, entries=[])
    listing = publisher.catalog.list()
    assert listing.entries == ()
    assert [(problem.name, problem.code) for problem in listing.problems] == [("say", "not_authorised")]
    with pytest.raises(NotAuthorised):
        publisher.catalog.head("say")
    with pytest.raises(NotAuthorised):
        publisher.catalog.resolve("say")
    assert publisher.catalog.show("say").workflow_id == "say"


def test_a_revoked_package_does_not_run(publisher: Publisher) -> None:
    published = publisher.put("say")
    change_sources(publisher, revoked=[{"scope": "programs", "path": "workflow/say"}])
    with pytest.raises(NotAuthorised, match="revoked"):
        publisher.services.snapshots.for_revision("say", published.revision)


def test_a_damaged_record_lists_nothing(publisher: Publisher) -> None:
    publisher.put("say")
    (publisher.home / "catalog" / "sources.json").write_text("{")
    with pytest.raises(SourcesDamaged):
        publisher.catalog.list()


def test_moving_the_home_keeps_everything_true(publisher: Publisher, tmp_path: Path) -> None:
    publisher.put("say")
    published = publisher.put("top", imports=["say"])
    elsewhere = Publisher(tmp_path / "elsewhere")
    elsewhere.home.parent.mkdir()
    publisher.home.rename(elsewhere.home)
    assert [entry.workflow_id for entry in elsewhere.catalog.list().entries] == ["say", "top"]
    assert elsewhere.services.snapshots.for_revision("top", published.revision).tree_id == published.tree_id


def test_no_path_of_this_machine_is_persisted(publisher: Publisher, tmp_path: Path) -> None:
    publisher.put("say")
    publisher.put("top", imports=["say"])
    publisher.put("say", replace=True, body='return "b"')
    for path in publisher.home.rglob("*"):
        if path.is_file() and path.suffix not in (".pack", ".idx", ".rev"):
            assert str(tmp_path).encode() not in path.read_bytes(), path


def test_the_log_is_newest_first_and_bounded(publisher: Publisher) -> None:
    first = publisher.put("say", version="1.0").revision
    second = publisher.put("say", version="1.1", replace=True).revision
    assert [entry.revision for entry in publisher.catalog.log("say")] == [second, first]
    (newest,) = publisher.catalog.log("say", limit=1)
    assert (newest.revision, newest.subject) == (second, "Publish say 1.1")


@pytest.mark.parametrize("mode", ["120000", "100755", "160000"])
def test_a_commit_with_links_programs_or_submodules_is_damage(publisher: Publisher, mode: str) -> None:
    publisher.put("say")
    project = publisher.project("say")
    head = publisher.catalog.head("say")
    stream = (
        f"commit refs/heads/main\ncommitter x <x> 1 +0000\ndata 0\nfrom {head}\n"
        f"M {mode} {head if mode == '160000' else 'inline'} odd\n" + ("" if mode == "160000" else "data 4\n/etc\n")
    )
    run(["git", "fast-import", "--quiet"], env=tool_environment(), cwd=project, stdin=stream.encode())
    new = publisher.catalog.head("say")
    assert new != head
    with pytest.raises(CorruptEntry, match="odd"):
        publisher.catalog.files("say", new)
    with pytest.raises(CorruptEntry, match="odd"):
        publisher.services.snapshots.for_revision("say", new)


@pytest.mark.parametrize("seconds", ["99999999999999", "1"])
def test_a_commit_of_an_impossible_time_breaks_no_listing(publisher: Publisher, seconds: str) -> None:
    publisher.put("say")
    head = publisher.catalog.head("say")
    stream = f"commit refs/heads/main\ncommitter x <x> {seconds} +0000\ndata 0\nfrom {head}\n"
    run(["git", "fast-import", "--quiet"], env=tool_environment(), cwd=publisher.project("say"), stdin=stream.encode())
    assert len(publisher.catalog.list().entries) == 1
    assert len(publisher.catalog.log("say")) == 2
    assert publisher.catalog.show("say").active
