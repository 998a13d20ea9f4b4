"""Publishers in several processes: one of them wins, the others are told, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.catalog.unfinished import project_lock
from engine.proc import run
from engine.settings import tool_environment
from tests.helpers.publish_process import PublisherProcess
from tests.helpers.publishing import Publisher, package_files, write_package


@pytest.fixture
def publisher(tmp_path: Path) -> Publisher:
    return Publisher(tmp_path)


def together(publisher: Publisher, *directories: Path) -> list[str]:
    """Publish from one process each; all are inside the gate before any goes on."""
    children = [PublisherProcess(publisher.home.parent, directory) for directory in directories]
    for child in children:
        child.wait_until_ready()
    for child in children:
        assert child.process.stdin is not None
        child.process.stdin.write("go\n")
        child.process.stdin.flush()
    return [child.go() for child in children]


def versions(publisher: Publisher, count: int) -> list[Path]:
    root = publisher.home.parent
    return [
        write_package(root / str(number), "say", package_files("say", body=f'return "{number}"'))
        for number in range(count)
    ]


def check_sound(publisher: Publisher, name: str = "say") -> None:
    assert publisher.aside() == []
    for argv in (["status", "--porcelain"], ["fsck", "--strict", "--no-dangling"]):
        assert run(["git", *argv], env=tool_environment(), cwd=publisher.project(name)).stdout == b""


def test_of_several_publishers_of_a_new_name_one_wins(publisher: Publisher) -> None:
    printed = together(publisher, *versions(publisher, 3))
    assert sorted(line.split()[0] for line in printed) == ["base_moved"] * 2 + ["published"]
    (won,) = (line.split()[1] for line in printed if line.startswith("published"))
    assert publisher.catalog.head("say") == won
    assert len(publisher.catalog.log("say")) == 1
    check_sound(publisher)


def test_of_several_publishers_of_one_package_one_wins(publisher: Publisher) -> None:
    first = publisher.put("say").revision
    printed = together(publisher, *versions(publisher, 3))
    assert sorted(line.split()[0] for line in printed) == ["base_moved"] * 2 + ["published"]
    (won,) = (line.split()[1] for line in printed if line.startswith("published"))
    assert [entry.revision for entry in publisher.catalog.log("say")] == [won, first]
    check_sound(publisher)


def test_publishers_of_different_packages_do_not_meet(publisher: Publisher) -> None:
    names = ["one", "three", "two"]
    root = publisher.home.parent / "many"
    printed = together(publisher, *(write_package(root, name, package_files(name)) for name in names))
    assert [line.split()[0] for line in printed] == ["published"] * 3
    listing = publisher.catalog.list()
    assert [entry.workflow_id for entry in listing.entries] == names
    assert listing.problems == ()
    for name in names:
        check_sound(publisher, name)


def test_a_package_is_published_while_another_ones_lock_is_held(publisher: Publisher) -> None:
    publisher.put("other")
    with project_lock(publisher.home / "catalog", "other"):
        publisher.put("say")
    assert publisher.catalog.head("say")
