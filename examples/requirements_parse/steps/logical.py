"""Physical lines to logical ones: continuations joined, comments and blank lines dropped."""

import re

COMMENT = re.compile(r"(^|\s+)#.*$")


def logical_lines(text):
    """Pairs of line number (from 1, where the logical line starts) and content."""
    pieces = []
    start = 0
    for number, line in enumerate(text.splitlines(), start=1):
        start = start or number
        is_comment = COMMENT.match(line) is not None
        if line.endswith("\\") and not is_comment:
            pieces.append(line[:-1])
            continue
        pieces.append(line)
        yield from _finished(start, pieces)
        pieces, start = [], 0
    if pieces:
        yield from _finished(start, pieces)


def _finished(start, pieces):
    content = COMMENT.sub("", " ".join(piece.strip() for piece in pieces if not COMMENT.fullmatch(piece))).strip()
    if content:
        yield start, content
