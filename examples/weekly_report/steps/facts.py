"""The facts of a week, from the three files of the workspace."""

import csv
import io
from collections import Counter
from datetime import date

from cloche.programs import read


def collect(week):
    """A dict of plain facts: `commits authors subjects changes closed open overdue`, see `facts_as_text`."""
    commits = [commit for commit in _commits() if week.holds(commit["date"])]
    todos = list(csv.DictReader(io.StringIO(_whole("todo.csv"))))
    still_open = [todo for todo in todos if _open_at(todo, week.sunday)]
    overdue = [todo for todo in still_open if todo["due"] and date.fromisoformat(todo["due"]) <= week.sunday]
    return {
        "commits": len(commits),
        "authors": dict(sorted(Counter(commit["author"] for commit in commits).items())),
        "subjects": [commit["subject"] for commit in commits],
        "changes": _unreleased(_whole("CHANGELOG.md")),
        "closed": sorted(
            todo["id"] for todo in todos if todo["closed"] and week.holds(date.fromisoformat(todo["closed"]))
        ),
        "open": len(still_open),
        "overdue": [{"id": todo["id"], "title": todo["title"], "owner": todo["owner"]} for todo in overdue],
    }


def _commits():
    for number, line in enumerate(_whole("commits.txt").splitlines(), start=1):
        parts = line.split("\t")
        if len(parts) != 4:
            raise ValueError(f"commits.txt, line {number}: four fields separated by tabs are expected")
        yield {"date": date.fromisoformat(parts[1]), "author": parts[2], "subject": parts[3]}


def _open_at(todo, day):
    return not todo["closed"] or date.fromisoformat(todo["closed"]) > day


def _unreleased(changelog):
    changes, inside = [], False
    for line in changelog.splitlines():
        if line.startswith("## "):
            inside = "unreleased" in line.lower()
        elif inside and line.startswith("- "):
            changes.append(line[2:].strip())
        elif inside and line.startswith("  ") and changes:
            changes[-1] += " " + line.strip()
    return changes


def _whole(path):
    pieces, offset = [], 0
    while offset is not None:
        page = read(path, offset=offset)
        pieces.append(page["text"])
        offset = page["next"]
    return "".join(pieces)
