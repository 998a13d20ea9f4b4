"""Pins: who decides which revision of a dependency a package runs with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.catalog.pins import (
    CyclicDependency,
    MissingDependency,
    OldFormatDependency,
    PinConflict,
    choose_pins,
)
from engine.catalog.refs import CorruptEntry
from engine.catalog.repos import NotAuthorised
from engine.gate.publish import PermissionsUncovered
from tests.helpers.publishing import Publisher

VALUE = 'return "{}"'


@pytest.fixture
def publisher(tmp_path: Path) -> Publisher:
    return Publisher(tmp_path)


def bump(publisher: Publisher, name: str, value: str, **options: object) -> str:
    return publisher.put(name, replace=True, body=VALUE.format(value), **options).revision  # type: ignore[arg-type]


def test_a_package_without_dependencies_has_no_pins(publisher: Publisher) -> None:
    assert publisher.put("say").pins == {}


def test_a_new_package_takes_the_head_of_what_it_imports(publisher: Publisher) -> None:
    publisher.put("say")
    head = bump(publisher, "say", "2")
    published = publisher.put("top", imports=["say"])
    assert published.pins == {"say": head}
    assert f'say = "{head}"' in publisher.catalog.files("top", published.revision)["pyproject.toml"].decode()


def test_pins_name_every_workflow_that_is_reached(publisher: Publisher) -> None:
    low = publisher.put("low").revision
    middle = publisher.put("middle", imports=["low"]).revision
    assert publisher.put("top", imports=["middle"]).pins == {"low": low, "middle": middle}


def test_a_republish_keeps_the_pins_of_the_active_revision(publisher: Publisher) -> None:
    old = publisher.put("say").revision
    publisher.put("top", imports=["say"])
    bump(publisher, "say", "2")
    again = publisher.put("top", imports=["say"], replace=True, version="2.0")
    assert again.pins == {"say": old}


def test_repin_takes_the_head_of_all(publisher: Publisher) -> None:
    publisher.put("say")
    publisher.put("top", imports=["say"])
    head = bump(publisher, "say", "2")
    assert publisher.put("top", imports=["say"], replace=True, repin=True).pins == {"say": head}


def test_a_republish_takes_the_head_of_what_is_new_and_drops_what_is_gone(publisher: Publisher) -> None:
    publisher.put("old")
    kept = publisher.put("kept").revision
    publisher.put("top", imports=["kept", "old"])
    new = publisher.put("new").revision
    bump(publisher, "kept", "2")
    assert publisher.put("top", imports=["kept", "new"], replace=True).pins == {"kept": kept, "new": new}


def test_pins_written_in_the_candidate_by_hand_do_not_count(publisher: Publisher) -> None:
    old = publisher.put("say").revision
    head = bump(publisher, "say", "2")
    directory = publisher.write("top", imports=["say"])
    file = directory / "pyproject.toml"
    file.write_text(file.read_text() + f'\n[tool.cloche.workflow-dependencies]\nsay = "{old}"\nother = "{old}"\n')
    assert publisher.publish(directory).pins == {"say": head}


def test_a_dependency_keeps_its_own_pins(publisher: Publisher) -> None:
    low = publisher.put("low").revision
    publisher.put("middle", imports=["low"])
    bump(publisher, "low", "2")
    assert publisher.put("top", imports=["middle"]).pins["low"] == low


def test_two_pins_for_one_name_refuse_and_name_both(publisher: Publisher) -> None:
    low = publisher.put("low").revision
    publisher.put("middle", imports=["low"])
    head = bump(publisher, "low", "2")
    with pytest.raises(PinConflict) as caught:
        publisher.put("top", imports=["low", "middle"])
    assert low in caught.value.message
    assert head in caught.value.message
    assert "--repin" in caught.value.fix
    assert caught.value.exit_code == 4
    publisher.put("middle", imports=["low"], replace=True, repin=True)
    assert publisher.put("top", imports=["low", "middle"]).pins["low"] == head


def test_a_missing_dependency_is_named(publisher: Publisher) -> None:
    with pytest.raises(MissingDependency, match="top needs say"):
        publisher.put("top", imports=["say"])
    assert publisher.cells.opened == 0


def test_a_pinned_revision_that_is_gone_is_named(publisher: Publisher) -> None:
    publisher.put("say")
    with pytest.raises(MissingDependency, match="say@1111111"):
        choose_pins(publisher.catalog, "top", dependencies=["say"], active={"say": "1" * 40}, repin=False)


def test_a_cycle_prints_the_loop(publisher: Publisher) -> None:
    publisher.put("a_one")
    publisher.put("c_three", imports=["a_one"])
    publisher.put("b_two", imports=["c_three"])
    with pytest.raises(CyclicDependency, match="a_one → b_two → c_three → a_one"):
        publisher.put("a_one", imports=["b_two"], replace=True)


def test_a_package_that_imports_itself_by_name_is_refused(publisher: Publisher) -> None:
    with pytest.raises(CyclicDependency, match="say → say"):
        choose_pins(publisher.catalog, "say", dependencies=["say"], active={}, repin=False)


def test_a_project_of_the_older_format_cannot_be_imported(publisher: Publisher) -> None:
    publisher.put("say")
    old = publisher.catalog.projects / "older"
    old.mkdir()
    (old / "code.py").write_text("SINGLE")
    with pytest.raises(OldFormatDependency):
        publisher.put("top", imports=["older"])


def test_a_damaged_dependency_is_named(publisher: Publisher) -> None:
    publisher.put("say")
    (publisher.project("say") / ".git" / "HEAD").write_text("x")
    with pytest.raises(CorruptEntry, match="say"):
        publisher.put("top", imports=["say"])


def test_an_unauthorised_dependency_is_refused(publisher: Publisher) -> None:
    publisher.put("say")
    (publisher.home / "catalog" / "sources.json").write_text(json.dumps({"version": 1, "entries": [], "revoked": []}))
    with pytest.raises(NotAuthorised, match="say"):
        publisher.put("top", imports=["say"])


def test_imports_in_tests_make_no_dependency(publisher: Publisher) -> None:
    publisher.put("say")
    tests = "from workflows.top import top\n\n\ndef test_it():\n    assert top(1)\n"
    assert publisher.put("top", tests=tests).pins == {}


def test_permissions_cover_what_dependencies_declare(publisher: Publisher) -> None:
    publisher.put("say", permissions=["workspace.read", "ask"])
    with pytest.raises(PermissionsUncovered, match="ask"):
        publisher.put("top", imports=["say"])
    publisher.put("top", imports=["say"], permissions=["workspace.read", "ask"])


def test_a_dependency_that_declares_nothing_reads_the_workspace(publisher: Publisher) -> None:
    publisher.put("say")
    with pytest.raises(PermissionsUncovered, match=r"workspace\.read"):
        publisher.put("top", imports=["say"], permissions=[])
