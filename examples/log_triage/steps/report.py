"""The groups as a ranking, and the ranking as a page."""

from pathlib import Path

OUTPUT = Path("/tmp/output")
NAME = "triage.md"
TOP = 20


def ranked(groups):
    """The most frequent groups, at most `TOP`: by count, then by the earlier first time, then by text."""
    ordered = sorted(groups, key=lambda group: (-group.count, group.first, group.level, group.component, group.shape))
    return [
        {
            "rank": rank,
            "level": group.level,
            "component": group.component,
            "shape": group.shape,
            "count": group.count,
            "first_seen": spelt(group.first),
            "last_seen": spelt(group.last),
            "files": len(group.files),
            "sample": group.sample,
        }
        for rank, group in enumerate(ordered[:TOP], start=1)
    ]


def spelt(moment):
    """A time in UTC to the millisecond."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def write_report(result):
    """Write the page and return its name below the output folder."""
    OUTPUT.mkdir(parents=True, exist_ok=True)
    (OUTPUT / NAME).write_text("\n".join(_page(result)) + "\n", encoding="utf-8")
    return NAME


def _page(result):
    yield "# Errors in the logs"
    yield ""
    yield f"{result['errors']:,} errors of {result['shapes']:,} shapes in {result['lines']:,} lines of {result['files']:,} files."
    if result["other"] or result["unparsed"] or result["unreadable"] or result["more_files"]:
        yield (
            f"Not grouped: {result['other']:,} errors of further shapes, {result['unparsed']:,} lines without a readable head, "
            f"{len(result['unreadable']):,} unreadable files{', and files beyond the listing' if result['more_files'] else ''}."
        )
    yield ""
    yield "| # | count | first seen | last seen | files | level | component | shape |"
    yield "|---|---|---|---|---|---|---|---|"
    for group in result["top"]:
        shape = group["shape"].replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
        yield (
            f"| {group['rank']} | {group['count']} | {group['first_seen']} | {group['last_seen']} | {group['files']} "
            f"| {group['level']} | {group['component']} | {shape} |"
        )
