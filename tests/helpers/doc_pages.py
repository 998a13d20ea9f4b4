"""The documentation as data: pages, headings, code blocks, links, commands, and the package that the guide builds."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guide" / "write-a-package.md"
RENDERED = "<!-- Rendered from the code"

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"`([\w./]+)`[:：]\n\n```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_EMPTY = re.compile(r"`([\w./]+)` (?:is empty|为空)")
_SECTIONS = re.compile(r"`README\.md` with these headings: ([^.]+)\.")


@dataclass(frozen=True)
class Block:
    """One fenced block: the word behind the fence, and its text."""

    language: str
    text: str


@dataclass(frozen=True)
class Page:
    """One page of the documentation."""

    path: Path

    @property
    def name(self) -> str:
        """Path below the checkout."""
        return str(self.path.relative_to(ROOT))

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def blocks(self) -> list[Block]:
        """Fenced blocks, in order."""
        return [Block(language, text) for language, text in _FENCE.findall(self.text)]

    @cached_property
    def prose(self) -> str:
        """The text without fenced blocks."""
        return _FENCE.sub("", self.text)

    @property
    def headings(self) -> list[tuple[int, str]]:
        """Level and words of every heading."""
        return [(len(marks), words) for marks, words in re.findall(r"^(#+) (.+)$", self.prose, re.MULTILINE)]

    @property
    def anchors(self) -> set[str]:
        """What `#…` may name: the headings as GitHub spells them."""
        return {re.sub(r"[^\w\- ]", "", words.lower()).strip().replace(" ", "-") for _, words in self.headings}

    @property
    def links(self) -> list[str]:
        """Targets of relative links."""
        found = re.findall(r"\]\(([^)\s]+)\)", self.prose)
        return [target for target in found if not re.match(r"[a-z]+:", target)]

    @property
    def commands(self) -> list[list[str]]:
        """Words behind `cloche` of every command in a fenced block; what a shell would do with its output is left out."""
        lines = "\n".join(block.text.replace("\\\n", " ") for block in self.blocks if block.language != "text")
        found = re.findall(r"^\s*(?:\$ )?cloche (.+)$", lines, re.MULTILINE)
        return [shlex.split(re.split(r" (?:\||>|<|&&) ?", line)[0], comments=True) for line in found]


def pages() -> list[Page]:
    """Every page a reader may open."""
    top = [ROOT / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    return [Page(path) for path in (*top, *sorted((ROOT / "docs").rglob("*.md")))]


def guide_package() -> dict[str, str]:
    """Path → text of the package that the guide builds, as someone makes it who follows the guide to the letter."""
    page = Page(GUIDE)
    files = dict(_NAMED.findall(page.text)) | dict.fromkeys(_EMPTY.findall(page.text), "")
    (sections,) = _SECTIONS.findall(page.text)
    files["README.md"] = "# Word count\n" + "".join(f"\n## {name}\n\nText.\n" for name in sections.split(", "))
    return files


def write_guide_package(folder: Path) -> Path:
    """Write the guide's package below `folder`; returns its directory."""
    for name, text in guide_package().items():
        path = folder / "word_count" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder / "word_count"
