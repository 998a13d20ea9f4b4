"""Which files belong to the review, and their whole text."""

import re

from cloche.programs import glob, read

NAMES = re.compile(r"(?:^|/)[^/]*(?:requirements|constraints)[^/]*\.(?:txt|in|lock)$")


def requirement_files(pattern):
    """Paths of the requirements, constraints and lock files that match the glob `pattern`, in order."""
    found = glob(pattern)
    if found["more"]:
        raise ValueError(f"more files match {pattern!r} than can be looked through; give a narrower pattern")
    return [path for path in found["items"] if NAMES.search(path)]


def whole_text(path):
    """All pages of one file."""
    pieces, offset = [], 0
    while offset is not None:
        page = read(path, offset=offset)
        pieces.append(page["text"])
        offset = page["next"]
    return "".join(pieces)
