"""Links lead somewhere, commands exist, both languages say the same, and the package of the guide keeps the contract."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.exceptions import TyperException

from cli.app import tree
from engine.package.freeze import freeze
from engine.package.validate import validate
from tests.helpers.doc_pages import GUIDE, RENDERED, ROOT, Page, guide_package, pages, write_guide_package

PAGES = pages()
WRITTEN = [page for page in PAGES if not page.text.startswith(RENDERED)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_resolves(page: Page) -> None:
    assert [link for link in page.links if not leads_somewhere(page, link)] == []


def leads_somewhere(page: Page, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = (page.path.parent / name).resolve() if name else page.path
    return target.exists() and (not anchor or anchor in Page(target).anchors)


def test_a_link_that_leads_nowhere_is_found() -> None:
    assert leads_somewhere(Page(GUIDE), "../reference/rules.md#imports")
    assert not leads_somewhere(Page(GUIDE), "../reference/rules.md#no-such-heading")
    assert not leads_somewhere(Page(GUIDE), "../reference/ruler.md")


def test_the_index_reaches_every_page() -> None:
    reached, waiting = set(), [ROOT / "docs" / "README.md"]
    while waiting:
        path = waiting.pop()
        if path not in reached and path.suffix == ".md" and path.is_file():
            reached.add(path)
            waiting += [(path.parent / link.partition("#")[0]).resolve() for link in Page(path).links]
    assert sorted(set((ROOT / "docs").rglob("*.md")) - reached) == []


def test_every_page_that_the_code_names_exists() -> None:
    named = {
        (str(path.relative_to(ROOT)), name)
        for path in sources()
        for name in re.findall(r"\bdocs/[\w/.-]+\.md\b", path.read_text(encoding="utf-8"))
    }
    assert named
    assert [place for place in sorted(named) if not (ROOT / place[1]).is_file()] == []


# Commands


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.name)
def test_every_command_in_a_block_is_one_that_cloche_takes(page: Page) -> None:
    assert [(argv, why) for argv in page.commands if (why := refusal(argv))] == []


def test_every_command_named_in_a_sentence_or_in_a_message_exists() -> None:
    texts = [(page.name, page.prose) for page in WRITTEN]
    texts += [(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")) for path in sources()]
    found = [(name, line) for name, text in texts for line in re.findall(r"`cloche ([^`\n]+)`", text)]
    assert len(found) > 20
    assert [(name, line) for name, line in found if unknown_words(line.split())] == []


def test_commands_that_do_not_exist_are_found() -> None:
    assert refusal(["workflows", "validate", "word_count"]) == ""
    assert "nothing" in refusal(["workflows", "nothing"])
    assert "--nothing" in refusal(["runs", "list", "--nothing"])
    assert refusal(["runs", "resume"])
    assert unknown_words(["runs", "resume", "RUN", "--raise-cap", "N"]) == []
    assert unknown_words(["runs", "restart", "RUN"]) == ["restart"]
    assert unknown_words(["runs", "resume", "RUN", "--again"]) == ["--again"]


def sources() -> Iterator[Path]:
    """The product's own Python, without what runs in a cell."""
    for folder in ("cli", "engine", "sandbox_images"):
        yield from (path for path in (ROOT / folder).rglob("*.py") if "probes" not in path.relative_to(ROOT).parts)


@cache
def root() -> Any:
    return typer.main.get_command(tree())


def descend(words: list[str]) -> tuple[Any, list[str]]:
    """The deepest command that the words name, and the rest of them."""
    command, rest = root(), list(words)
    while rest and rest[0] in getattr(command, "commands", {}):
        command = command.commands[rest.pop(0)]
    return command, rest


def refusal(argv: list[str]) -> str:
    """Why cloche would not take this command line; empty when it would. Nothing is run."""
    command, rest = descend(argv)
    if rest[:1] in (["--help"], ["--version"]):
        return ""
    if hasattr(command, "commands"):
        return f"no command {rest}"
    try:
        command.make_context("cloche", rest)
    except TyperException as error:
        return error.format_message()
    return ""


def unknown_words(words: list[str]) -> list[str]:
    """Words of a command in a sentence that are no verb and no option; arguments may be placeholders."""
    command, rest = descend(words)
    if hasattr(command, "commands") and rest:
        verb = rest[0]
        if verb not in ("COMMAND", "--help", "--version") and "|" not in verb and not verb.startswith("{"):
            return [verb]
    known = {"--help", "--version", *(name for parameter in command.params for name in parameter.opts)}
    return [word for word in rest if re.match(r"--?[a-z]", word) and word not in known]


# The guide


def test_both_languages_of_the_guide_have_the_same_headings_and_blocks() -> None:
    english, chinese = Page(GUIDE), Page(GUIDE.with_suffix(".zh.md"))
    assert [level for level, _ in chinese.headings] == [level for level, _ in english.headings]
    assert chinese.blocks == english.blocks
    assert sorted(chinese.links) == sorted(english.links)


def test_the_layout_in_the_guide_is_the_package_that_it_builds() -> None:
    drawn = re.findall(r"── ([\w.]+)$", Page(GUIDE).blocks[0].text, re.MULTILINE)
    assert sorted(drawn) == sorted(name.rpartition("/")[2] for name in guide_package())


def test_the_package_in_the_guide_keeps_the_contract_without_a_warning(tmp_path: Path) -> None:
    found = validate(freeze(write_guide_package(tmp_path)), authored=True)
    assert [str(item) for item in found.diagnostics] == []
    assert found.ok
