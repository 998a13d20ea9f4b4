"""The rendered pages say what the code says, and nothing is missing on them or on the written ones."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from cli.reference import EXIT_CODES, commands, errors, main, pages, stale
from cli.reference_authoring import documented
from cli.reference_json import models
from cli.reference_rules import GROUPS
from cli.schemas import SCHEMAS
from engine.package import vocabulary
from engine.package.rules import RULES
from engine.run import events
from engine.sandbox.violations import VIOLATIONS
from engine.settings import Settings
from tests.helpers.doc_pages import ROOT


def reference(name: str) -> str:
    return (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")


def test_the_rendered_pages_are_current() -> None:
    assert stale() == [], "run `make docs`"


def test_a_page_that_differs_or_is_missing_is_found(tmp_path: Path) -> None:
    for name, text in pages().items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert stale(tmp_path) == []
    (tmp_path / "cli.md").write_text("old", encoding="utf-8")
    (tmp_path / "json.md").unlink()
    assert stale(tmp_path) == ["cli.md", "json.md"]


def test_the_renderer_refuses_other_arguments() -> None:
    assert main(["--wrote"]) == 2


def test_every_verb_has_a_documented_object_and_takes_json() -> None:
    verbs = dict(commands())
    assert set(SCHEMAS) == set(verbs)
    for words, command in verbs.items():
        assert "as_json" in [parameter.name for parameter in command.params], words


def test_every_verb_argument_and_option_says_what_it_is() -> None:
    silent = [words for words, command in commands() if not command.help]
    silent += [
        f"{words} {parameter.name}"
        for words, command in commands()
        for parameter in command.params
        if not parameter.help
    ]
    assert silent == []


def test_every_field_that_json_prints_is_described() -> None:
    silent = [
        f"{model.__name__}.{name}"
        for model in models()
        for name, field in model.model_fields.items()
        if not field.description
    ]
    assert silent == []
    assert all(model.model_config.get("extra") == "forbid" for model in models())


def test_every_name_that_a_package_may_import_has_an_entry() -> None:
    page = reference("authoring.md")
    names = {name for module in documented().values() for name in module}
    assert vocabulary.primitives() | vocabulary.programs() | {"script", "data", "Call"} <= names
    assert [name for name in names if f"\n### {name}\n\n```python\n" not in page] == []


def test_every_setting_is_on_its_page() -> None:
    page = reference("settings.md")
    for name, field in Settings.model_fields.items():
        assert f"`CLOCHE_{name.upper()}`" in page
        assert field.description


def test_every_error_has_a_documented_exit_code_and_says_what_it_means() -> None:
    found = errors()
    assert {kind.exit_code for kind in found} <= set(EXIT_CODES) - {0, 130}
    assert [kind.__name__ for kind in found if not (kind.__doc__ or "").strip()] == []
    page = reference("exit-codes.md")
    assert [kind.code for kind in found if f"`{kind.code}`" not in page] == []


def test_the_errors_of_every_layer_are_found() -> None:
    modules = {kind.__module__ for kind in errors()}
    assert {"engine.errors", "engine.gate.checks", "engine.run.store", "sandbox_images.debs"} <= modules


def test_every_rule_has_a_section() -> None:
    assert {rule.partition(".")[0] for rule in RULES} == set(GROUPS)


def test_every_event_of_the_journal_is_described_with_all_its_fields() -> None:
    rows = {row.split("|")[1].strip(" `"): row for row in reference("journal.md").splitlines() if row.startswith("| `")}
    missing = []
    for event in get_args(events.Event):
        name = event.model_fields["e"].default
        row = rows.get(name, "")
        missing += [f"{name}: {field}" for field in event.model_fields if field != "e" and f"`{field}`" not in row]
        missing += [] if row else [name]
    assert missing == []


@pytest.mark.parametrize("code", sorted(VIOLATIONS))
def test_every_way_to_break_the_exchange_is_on_the_protocol_page(code: str) -> None:
    assert f"`{code}`" in reference("protocol.md")
