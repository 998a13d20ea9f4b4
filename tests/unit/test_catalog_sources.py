"""The owner's record: what is authorised, what was revoked, and what it refuses to say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.catalog import sources
from engine.catalog.sources import BadIdentity, SourceRevoked, SourcesDamaged


def record(catalog: Path, document: Any) -> None:
    catalog.mkdir(exist_ok=True)
    (catalog / "sources.json").write_text(document if isinstance(document, str) else json.dumps(document))


def row(path: str, scope: str = "programs") -> dict[str, str]:
    return {"scope": scope, "path": path}


def test_an_absent_record_authorises_nothing(tmp_path: Path) -> None:
    assert not sources.read(tmp_path).allows("say")


def test_authorising_adds_a_row_once(tmp_path: Path) -> None:
    sources.authorise(tmp_path, "say")
    sources.authorise(tmp_path, "say")
    document = json.loads((tmp_path / "sources.json").read_text())
    assert document == {"version": 1, "entries": [row("workflow/say")], "revoked": []}


def test_rows_and_fields_of_others_survive(tmp_path: Path) -> None:
    other = {"scope": "checkout", "path": "x", "note": "mine"}
    record(tmp_path, {"version": 1, "entries": [other], "revoked": [row("workflow/old")], "owner": "me"})
    sources.authorise(tmp_path, "say")
    document = json.loads((tmp_path / "sources.json").read_text())
    assert document["entries"] == [other, row("workflow/say")]
    assert document["revoked"] == [row("workflow/old")]
    assert document["owner"] == "me"


def test_a_revoked_package_is_not_authorised_again(tmp_path: Path) -> None:
    record(tmp_path, {"version": 1, "entries": [row("workflow/say")], "revoked": [row("workflow/say")]})
    before = (tmp_path / "sources.json").read_bytes()
    with pytest.raises(SourceRevoked):
        sources.authorise(tmp_path, "say")
    assert (tmp_path / "sources.json").read_bytes() == before
    assert not sources.read(tmp_path).allows("say")


@pytest.mark.parametrize(
    "bad",
    [
        row("/etc/passwd"),
        row("workflow/../say"),
        row("../workflow/say"),
        row("workflow/say/x"),
        row("workflow//say"),
        row("other/say"),
        row("workflow/Say"),
        row("say"),
        row("workflow/say", scope="host"),
        {"path": "workflow/say"},
        {"scope": "programs", "path": 3},
        "workflow/say",
        None,
    ],
)
def test_locations_that_are_not_portable_are_refused_and_named(tmp_path: Path, bad: Any) -> None:
    with pytest.raises(BadIdentity):
        sources.located(bad)
    record(tmp_path, {"version": 1, "entries": [bad], "revoked": []})
    found = sources.read(tmp_path)
    assert found.authorised == frozenset()
    assert len(found.refused) == 1


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 2}', '{"version": 1, "entries": {}}', "[" * 100_000])
def test_a_damaged_record_is_an_error_and_is_not_overwritten(tmp_path: Path, text: str) -> None:
    record(tmp_path, text)
    with pytest.raises(SourcesDamaged):
        sources.read(tmp_path)
    with pytest.raises(SourcesDamaged):
        sources.authorise(tmp_path, "say")
    assert (tmp_path / "sources.json").read_text() == text
