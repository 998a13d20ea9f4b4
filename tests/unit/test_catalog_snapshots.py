"""Snapshots hold exactly the committed bytes of a revision and its pins, or are refused."""

from __future__ import annotations

import shutil
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from engine.catalog.refs import CorruptEntry
from engine.catalog.repos import UnknownRevision
from engine.catalog.snapshots import snapshot_digest
from engine.package.freeze import freeze
from engine.package.validate import require_valid
from engine.proc import run
from engine.settings import tool_environment
from tests.helpers.publishing import Publisher


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.fixture
def publisher(tmp_path: Path) -> Publisher:
    return Publisher(tmp_path)


def test_a_snapshot_holds_the_package_and_its_pins_as_committed(publisher: Publisher) -> None:
    old = publisher.put("say")
    top = publisher.put("top", imports=["say"])
    publisher.put("say", replace=True, body='return "new"')
    snapshot = publisher.services.snapshots.for_revision("top", top.revision)
    assert sorted(path.name for path in (snapshot.path / "workflows").iterdir()) == ["say", "top"]
    assert (snapshot.path / "workflows" / "say" / "workflow.py").read_bytes() == publisher.catalog.files(
        "say", old.revision
    )["workflow.py"]
    assert (snapshot.workflow_id, snapshot.revision, snapshot.tree_id) == ("top", top.revision, top.tree_id)
    assert snapshot.pins == {"say": old.revision}


def test_the_digest_names_the_trees(publisher: Publisher) -> None:
    say = publisher.put("say")
    top = publisher.put("top", imports=["say"])
    snapshot = publisher.services.snapshots.for_revision("top", top.revision)
    assert snapshot.digest == snapshot_digest({"say": say.tree_id, "top": top.tree_id})
    assert snapshot.path.name == snapshot.digest


def test_a_candidate_and_its_publication_have_one_snapshot(publisher: Publisher) -> None:
    package = require_valid(freeze(publisher.write("say")))
    before = publisher.services.snapshots.for_candidate(package)
    published = publisher.put("say")
    after = publisher.services.snapshots.for_revision("say", published.revision)
    assert (before.digest, before.revision) == (after.digest, None)


@pytest.mark.parametrize(
    ("declared", "held"), [(None, ("workspace.read",)), ([], ()), (["network"], ("network",))], ids=str
)
def test_a_snapshot_tells_what_its_package_declares(
    publisher: Publisher, declared: list[str] | None, held: tuple[str, ...]
) -> None:
    say = publisher.put("say", permissions=declared)
    snapshot = publisher.services.snapshots.for_revision("say", say.revision)
    assert snapshot.summary().permissions == held
    assert snapshot.summary() == publisher.catalog.show("say").summary


def test_everything_in_it_is_read_only(publisher: Publisher) -> None:
    snapshot = publisher.services.snapshots.for_revision("say", publisher.put("say").revision)
    for path in (snapshot.path, *snapshot.path.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o555 if path.is_dir() else 0o444), path


def test_asking_again_uses_what_is_there(publisher: Publisher) -> None:
    revision = publisher.put("say").revision
    first = publisher.services.snapshots.for_revision("say", revision)
    inode = (first.path / "workflows").stat().st_ino
    assert publisher.services.snapshots.for_revision("say", revision) == first
    assert (first.path / "workflows").stat().st_ino == inode


def _changed(path: Path) -> None:
    (path / "workflows" / "say" / "workflow.py").chmod(0o644)
    (path / "workflows" / "say" / "workflow.py").write_text("x = 1\n")


def _missing(path: Path) -> None:
    (path / "workflows" / "say" / "steps" / "spoken.py").unlink()


def _surplus(path: Path) -> None:
    (path / "workflows" / "other").mkdir()


def _surplus_beside(path: Path) -> None:
    (path / "sitecustomize.py").write_text("")


def _empty_folder(path: Path) -> None:
    (path / "workflows" / "say" / "helpers").mkdir()


def _link(path: Path) -> None:
    target = path / "workflows" / "say" / "workflow.py"
    shutil.copy(target, path.parent / "workflow.py")
    target.unlink()
    target.symlink_to(path.parent / "workflow.py")


def _linked_folder(path: Path) -> None:
    (path / "workflows" / "say").rename(path.parent / "say")
    (path / "workflows" / "say").symlink_to(path.parent / "say")


DAMAGES = [_changed, _missing, _surplus, _surplus_beside, _empty_folder, _link, _linked_folder]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_snapshot_that_was_changed_is_made_again(publisher: Publisher, damage: object) -> None:
    assert callable(damage)
    revision = publisher.put("say").revision
    snapshot = publisher.services.snapshots.for_revision("say", revision)
    for path in (snapshot.path, *snapshot.path.rglob("*")):
        if path.is_dir():
            path.chmod(0o755)
    damage(snapshot.path)
    again = publisher.services.snapshots.for_revision("say", revision)
    files = {
        str(path.relative_to(again.path / "workflows" / "say")): path.read_bytes()
        for path in (again.path / "workflows" / "say").rglob("*")
        if path.is_file() and not path.is_symlink()
    }
    assert files == publisher.catalog.files("say", revision)
    assert names(again.path / "workflows") == ["say"]
    assert names(again.path) == ["workflows"]


@pytest.mark.parametrize("attributes", ["README.md export-ignore\n", "* export-subst\n", "workflow.py text eol=crlf\n"])
def test_attributes_in_a_tree_that_change_what_is_exported_are_refused(publisher: Publisher, attributes: str) -> None:
    publisher.put("say", body='return "$Format:%H$"')
    head = publisher.catalog.head("say")
    stream = (
        f"commit refs/heads/main\ncommitter x <x> 1 +0000\ndata 0\nfrom {head}\n"
        f"M 100644 inline .gitattributes\ndata {len(attributes)}\n{attributes}\n"
    )
    run(["git", "fast-import", "--quiet"], env=tool_environment(), cwd=publisher.project("say"), stdin=stream.encode())
    new = publisher.catalog.head("say")
    assert new != head
    with pytest.raises(CorruptEntry, match="exported with other bytes"):
        publisher.services.snapshots.for_revision("say", new)


def test_attributes_of_the_repository_do_not_change_what_is_exported(publisher: Publisher) -> None:
    published = publisher.put("say")
    info = publisher.project("say") / ".git" / "info"
    info.mkdir(exist_ok=True)
    (info / "attributes").write_text("README.md export-ignore\n* export-subst\n")
    assert publisher.services.snapshots.for_revision("say", published.revision).tree_id == published.tree_id


def test_damaged_objects_are_refused(publisher: Publisher) -> None:
    published = publisher.put("say")
    for pack in (publisher.project("say") / ".git" / "objects" / "pack").glob("*.pack"):
        pack.unlink()
    with pytest.raises(CorruptEntry, match="say"):
        publisher.services.snapshots.for_revision("say", published.revision)
    assert not list((publisher.home / "snapshots").glob(".new-*"))


def test_a_revision_that_does_not_exist_makes_no_snapshot(publisher: Publisher) -> None:
    publisher.put("say")
    before = names(publisher.home / "snapshots")
    with pytest.raises(UnknownRevision):
        publisher.services.snapshots.for_revision("say", "1" * 40)
    assert names(publisher.home / "snapshots") == before


def test_publishing_never_changes_a_snapshot_in_use(publisher: Publisher) -> None:
    first = publisher.put("say").revision
    snapshot = publisher.services.snapshots.for_revision("say", first)
    before = (snapshot.path / "workflows" / "say" / "workflow.py").read_bytes()
    publisher.put("say", replace=True, body='return "new"')
    assert (snapshot.path / "workflows" / "say" / "workflow.py").read_bytes() == before


def test_collecting_removes_what_is_unused_and_old(publisher: Publisher) -> None:
    first, second = publisher.put("say").revision, publisher.put("say", replace=True, body='return "b"').revision
    snapshots = publisher.services.snapshots
    used, unused = snapshots.for_revision("say", first), snapshots.for_revision("say", second)
    now = datetime.now(UTC)
    assert snapshots.collect(in_use=lambda: [], before=now - timedelta(hours=1)) == []
    assert snapshots.collect(in_use=lambda: [used.digest], before=now + timedelta(hours=1)) == [unused.digest]
    assert used.path.is_dir()
    assert not unused.path.exists()
