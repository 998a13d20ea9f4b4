"""Reading a log in pages that end at line ends, and feeding its error lines to the groups."""

from cloche.programs import read

from ..helpers.lines import MARKS, looks_like_head, parse_line

PAGE_BYTES = 256 * 1024


def scan(path, groups):
    """Count every line of one file and add its errors to `groups`.

    A page ends at a line end unless one line is longer than a page: then only its first piece is looked at.
    """
    offset, inside_line = 0, False
    while offset is not None:
        page = read(path, offset=offset, limit=PAGE_BYTES)
        text, following = page["text"], page["next"]
        groups.lines += text.count("\n")
        if inside_line:
            _, _, text = text.partition("\n")
            inside_line = "\n" not in page["text"]
        for line in text.split("\n"):
            if any(mark in line for mark in MARKS):
                _add(line.rstrip("\r"), path, groups)
        if following is None:
            groups.bytes += page["size"]
            groups.lines += bool(page["text"]) and not page["text"].endswith("\n")
        elif not page["text"].endswith("\n"):
            inside_line = True
        offset = following


def _add(line, path, groups):
    record = parse_line(line)
    if record is not None:
        groups.add(path, line, *record)
    elif looks_like_head(line):
        groups.unparsed += 1
