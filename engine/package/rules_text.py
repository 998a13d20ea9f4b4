"""Rules about the bytes of a file: UTF-8 without a mark, without NUL, without another declared encoding."""

from __future__ import annotations

import codecs
import re

from engine.package.contract import SourceFile
from engine.package.rules import Findings

_LINE_END = re.compile(rb"\r\n|\r|\n")
_DECLARATION = re.compile(rb"coding[:=][ \t]*([-\w.]+)")
_UTF8_NAMES = frozenset({b"utf-8", b"utf8", b"utf_8"})


def check_text(file: SourceFile, findings: Findings) -> None:
    """Report what makes `file` something else than plain UTF-8 text. CRLF is fine."""
    path, data = file.path, file.data
    if data.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        findings.add("text.bom", path, "starts with a byte order mark.", line=1, fix="Save it as UTF-8 without BOM.")
        return
    if b"\0" in data:
        line = data.count(b"\n", 0, data.index(b"\0")) + 1
        findings.add("text.nul", path, "holds a NUL byte.", line=line, fix="Remove it; packages hold text only.")
        return
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        findings.add("text.utf8", path, f"is not UTF-8 at byte {error.start}.", line=line, fix="Save it as UTF-8.")
        return
    if path.endswith(".py"):
        _check_declaration(path, data, findings)


def _check_declaration(path: str, data: bytes, findings: Findings) -> None:
    """The text that is checked must be the text that is imported (PEP 263: the first two lines)."""
    for number, line in enumerate(_LINE_END.split(data, maxsplit=2)[:2], start=1):
        declared = _DECLARATION.search(line.partition(b"#")[2])
        if declared and declared.group(1).lower() not in _UTF8_NAMES:
            name = declared.group(1).decode()
            findings.add("text.encoding", path, f"declares the encoding {name}.", line=number, fix="Remove the line.")
