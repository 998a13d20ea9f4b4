"""Rules about README.md: not empty, and eight sections that a reader can rely on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from engine.package.contract import Severity
from engine.package.rules import Findings

README: Final = "README.md"
SECTIONS: Final[dict[str, tuple[str, ...]]] = {
    "Purpose": ("purpose", "用途", "目的"),
    "Input": ("input", "inputs", "输入"),
    "Output": ("output", "outputs", "输出"),
    "Effects": ("effects", "side effects", "副作用", "影响"),
    "Failure and cancellation": ("failure and cancellation", "failures and cancellation", "失败与取消", "失败和取消"),
    "Dependencies": ("dependencies", "依赖", "依赖项"),
    "Tests": ("tests", "testing", "测试"),
    "Example": ("example", "examples", "示例", "例子"),
}
"""Section → the headings that count as it, compared without case, numbering, and emphasis."""

_HEADING_CHARACTERS = 200
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_ATX = re.compile(r" {0,3}#{1,6}[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*")
_SETEXT = re.compile(r" {0,3}(=+|-+)[ \t]*")
_NUMBERING = re.compile(r"^(?:[0-9]+(?:\.[0-9]+)*[.)、]?|[一二三四五六七八九十]+、)\s*")


def check_readme(data: bytes, findings: Findings, *, authored: bool) -> None:
    """Report an empty README, or each missing section: a warning, an error when a planner wrote the package."""
    text = data.decode("utf-8", "replace")
    if not text.strip():
        findings.add("readme.empty", README, "is empty.", fix="Say what the workflow is for; see `readme.section`.")
        return
    headings = set(_headings(text))
    severity = Severity.error if authored else Severity.warning
    for section, names in SECTIONS.items():
        if headings.isdisjoint(names):
            fix = f"Add a heading `## {section}` (or `## {names[-1]}`) and say it in a sentence."
            findings.add("readme.section", README, f"has no section {section}.", fix=fix, severity=severity)


def _headings(text: str) -> Iterator[str]:
    """The headings of a Markdown text (CommonMark: ATX and setext, outside fenced code), as compared."""
    fence = ""
    before = ""
    for whole in text.splitlines():
        line = whole[:_HEADING_CHARACTERS]
        mark = _FENCE.match(line)
        if fence:
            if mark and mark.group(1).startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        elif mark:
            fence = mark.group(1)
        elif heading := _ATX.fullmatch(line):
            yield _compared(heading.group(1))
        elif before.strip() and _SETEXT.fullmatch(line):
            yield _compared(before)
        before = "" if fence or mark else line


def _compared(heading: str) -> str:
    plain = _NUMBERING.sub("", heading.strip().strip("*_`").strip())
    return " ".join(plain.strip(":： ").replace("&", "and").casefold().split())
