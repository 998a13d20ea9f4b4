"""Input for the example packages, made by script: the same bytes from the same seed, on every machine.

    python examples/inputs.py DIRECTORY [--megabytes 50]

Three workspaces: `logs/` for log_triage, `requirements/` for dependency_review, `weekly/` for weekly_report. `plan.json` beside them
says what was planted, so that tests know the expected answers from here and not from the packages.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
VERSION = 1
SEED = 20261130
FIRST_DAY = datetime(2026, 11, 23, tzinfo=UTC)
DAYS = 7


@dataclass(frozen=True)
class Inputs:
    """Where the workspaces lie, and what was planted in them (see `plan.json`)."""

    logs: Path
    requirements: Path
    weekly: Path
    plan: dict[str, Any]


def ensure(directory: Path, *, megabytes: int = 50) -> Inputs:
    """The inputs in `directory`, made now unless the same ones are there already."""
    plan_file = directory / "plan.json"
    wanted = {"version": VERSION, "seed": SEED, "megabytes": megabytes}
    places = (directory / "logs", directory / "requirements", directory / "weekly")
    if plan_file.is_file():
        plan = json.loads(plan_file.read_text())
        if plan["made_with"] == wanted:
            return Inputs(*places, plan)
    for place in places:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
    plan = {
        "made_with": wanted,
        "logs": make_logs(places[0], megabytes=megabytes),
        "requirements": make_requirements(places[1]),
        "weekly": make_weekly(places[2]),
    }
    plan_file.write_text(json.dumps(plan, indent=1))
    return Inputs(*places, plan)


class Draw:
    """Random choices from `random()` alone, whose sequence Python promises to keep."""

    def __init__(self, seed: int) -> None:
        self._next = random.Random(seed).random

    def number(self, low: int, high: int) -> int:
        """From `low` to `high`, both included."""
        return low + int(self._next() * (high - low + 1))

    def pick(self, items: Any) -> Any:
        """One of a sequence."""
        return items[self.number(0, len(items) - 1)]


# Logs

# service, level, component, message, occurrences for 50 MB. In the message {…} is drawn anew each time; in the shape it is <…>.
ERRORS = (
    ("api", "ERROR", "api.http", "timeout after {n} ms calling {ip}", 4211),
    ("api", "ERROR", "api.http", "request {id} failed with status {n}", 2960),
    ("api", "ERROR", "api.auth", "token {hex} rejected for user {str}", 1730),
    ("api", "ERROR", "api.auth", "clock skew of {n} s with {ip}", 77),
    ("api", "CRITICAL", "api.db", "pool exhausted: {n} of {n} connections in use", 402),
    ("api", "FATAL", "api.main", "cannot bind {ip} port {n}", 3),
    ("payments", "ERROR", "payments.gateway", "card {str} declined after {n} ms", 2105),
    ("payments", "ERROR", "payments.gateway", "order {id}: amount {n} differs from {n}", 640),
    ("payments", "ERROR", "payments.ledger", "entry {hex} written twice", 55),
    ("payments", "CRITICAL", "payments.ledger", "balance of account {n} is negative: -{n}", 9),
    ("payments", "ERROR", "payments.mail", "cannot deliver receipt {id} to {str}", 318),
    ("payments", "ERROR", "payments.fx", "no rate for {str} since {time}", 1200),
    ("worker", "ERROR", "worker.queue", "job {id} failed on attempt {n}: {str}", 3377),
    ("worker", "ERROR", "worker.queue", "lease {hex} lost after {n} s", 911),
    ("worker", "ERROR", "worker.io", "checksum of {str} is {hex}, expected {hex}", 128),
    ("worker", "ERROR", "worker.io", "no space left on device for {str}", 128),
    ("worker", "FATAL", "worker.main", "worker-{n} killed by signal {n}", 21),
    ("worker", "ERROR", "worker.cron", "schedule {str} missed by {n} s", 480),
    ("worker", "ERROR", "worker.io", "unreadable name {bytes}", 33),
    ("gateway", "ERROR", "gateway.tls", "handshake with {ip} failed: {str}", 1999),
    ("gateway", "ERROR", "gateway.route", "no route to {ip} for {id}", 700),
    ("gateway", "CRITICAL", "gateway.limits", "client {ip} exceeded {n} requests", 256),
    ("gateway", "ERROR", "gateway.cache", "entry {hex} evicted while in use", 61),
    ("gateway", "FATAL", "gateway.main", "configuration {str} is invalid at line {n}", 2),
)
# Levels below error, though some speak of one.
HARMLESS = (
    ("INFO", "{n} requests in {n} ms, {n} from cache, peer {ip}, trace {hex}"),
    ("INFO", "finished {id} for user {n} in {n} ms with {n} rows read and {n} written"),
    ("DEBUG", "session {hex} renewed, next check in {n} s, {n} sessions are open, {n} are idle"),
    ("WARN", "slow query took {n} ms: select * from orders where id = {n} and state = {str}"),
    ("INFO", "retry {n} after ERROR from {ip}; the earlier FATAL state of {id} is cleared"),
)
STACK = (
    "Traceback (most recent call last):\n"
    '  File "/srv/app/main.py", line 31, in handle_ERROR\n'
    "    raise Failure(reason)\n"
    "app.Failure: see above\n"
)
NAMES = ("blue", "north yard", "4711", "a-b-c", "x/y.dat", "renewal", "EUR", "café")
SERVICES = ("api", "payments", "worker", "gateway")
LINE_BYTES = 152


@dataclass
class Planted:
    """What was written of one kind of error."""

    level: str
    component: str
    shape: str
    count: int = 0
    first: str = "~"
    last: str = ""
    files: set[str] = field(default_factory=set)

    def note(self, moment: str, file: str) -> None:
        """Count one more."""
        self.count += 1
        self.first, self.last = min(self.first, moment), max(self.last, moment)
        self.files.add(file)


def make_logs(directory: Path, *, megabytes: int) -> dict[str, Any]:
    """One file per service and day; returns the planted errors and the totals."""
    draw = Draw(SEED)
    lines_per_file = megabytes * 1_000_000 // (LINE_BYTES * DAYS * len(SERVICES))
    planted = [Planted(level, component, re.sub(r"{(\w+)}", _shape, text)) for _, level, component, text, _ in ERRORS]
    totals = {"files": 0, "bytes": 0, "lines": 0, "unparsed": 0}
    for service in SERVICES:
        placed = _placed(draw, service, lines_per_file, megabytes)
        for day in range(DAYS):
            name = f"{service}/{(FIRST_DAY + timedelta(days=day)):%Y-%m-%d}.log"
            made = _LogFile(draw, name, service, day, lines_per_file, placed[day], planted)
            content = made.content()
            path = directory / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
            totals["files"] += 1
            totals["bytes"] += len(content)
            totals["lines"] += content.count(b"\n") + (not content.endswith(b"\n"))
            totals["unparsed"] += made.unparsed
    groups = [{**vars(kind), "files": len(kind.files)} for kind in planted]
    return {**totals, "errors": sum(kind.count for kind in planted), "groups": groups}


def _shape(found: re.Match[str]) -> str:
    return "<str>" if found.group(1) == "bytes" else f"<{found.group(1)}>"


def _placed(draw: Draw, service: str, lines: int, megabytes: int) -> list[dict[int, int]]:
    """For each day: line number → kind of error."""
    days: list[dict[int, int]] = [{} for _ in range(DAYS)]
    for kind, (owner, *_, occurrences) in enumerate(ERRORS):
        left = max(1, occurrences * megabytes // 50) if owner == service else 0
        while left:
            day, line = days[draw.number(0, DAYS - 1)], draw.number(0, lines - 1)
            if line not in day:
                day[line] = kind
                left -= 1
    return days


@dataclass
class _LogFile:
    draw: Draw
    name: str
    service: str
    day: int
    lines: int
    errors: dict[int, int]
    planted: list[Planted]
    unparsed: int = 0

    def content(self) -> bytes:
        """The bytes of the file: odd days carry their own oddities."""
        text = "".join(self._all_lines())
        if (self.service, self.day) == ("worker", 3):
            text = text.replace("\n", "\r\n")
        if (self.service, self.day) == ("api", 5):
            text = text.removesuffix("\n")
        return text.encode("utf-8", "surrogateescape")

    def _all_lines(self) -> Iterator[str]:
        fillers = self._fillers()
        step = 86_400_000 // self.lines
        for number in range(self.lines):
            milliseconds = number * step
            stamp = self._stamp(milliseconds)
            kind = self.errors.get(number)
            if kind is not None:
                yield self._error(kind, stamp, milliseconds)
            else:
                level, component, message = fillers[(number * 7919 + self.day) % len(fillers)]
                yield self._line(stamp, level, component, message)
            if number == self.lines // 2:
                yield from self._oddities(stamp)

    def _oddities(self, stamp: str) -> Iterator[str]:
        if (self.service, self.day) == ("payments", 1):
            yield self._line(stamp, "INFO", "payments.dump", "state " + "ERROR FATAL " * 120_000)
        if (self.service, self.day) == ("api", 2):
            self.unparsed += 2
            yield "2026-11-99T00:00:00.000Z ERROR api.http: on a day that does not exist\n"
            yield "2026-11-25 ERROR\n"

    def _stamp(self, milliseconds: int) -> str:
        hours, rest = divmod(milliseconds, 3_600_000)
        minutes, rest = divmod(rest, 60_000)
        if (self.service, self.day) == ("worker", 4):
            day = FIRST_DAY + timedelta(days=self.day + (hours + 1) // 24)
            return f"{day:%Y-%m-%d} {(hours + 1) % 24:02}:{minutes:02}:{rest // 1000:02},{rest % 1000:03}+01:00"
        return f"{self._date}T{hours:02}:{minutes:02}:{rest // 1000:02}.{rest % 1000:03}Z"

    @property
    def _date(self) -> str:
        return f"2026-11-{23 + self.day}"

    def _fillers(self) -> list[tuple[str, str, str]]:
        made = []
        for _ in range(500):
            level, text = self.draw.pick(HARMLESS)
            made.append((level, f"{self.service}.{self.draw.pick(('http', 'core', 'db'))}", self._filled(text)))
        return made

    def _error(self, kind: int, stamp: str, milliseconds: int) -> str:
        _, level, component, text, _ = ERRORS[kind]
        moment = FIRST_DAY + timedelta(days=self.day, milliseconds=milliseconds)
        self.planted[kind].note(moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"), self.name)
        stack = STACK if self.service == "worker" and kind % 2 else ""
        return self._line(stamp, level, component, self._filled(text)) + stack

    def _line(self, stamp: str, level: str, component: str, message: str) -> str:
        if self.service == "gateway":
            return json.dumps({"ts": stamp, "level": level, "logger": component, "msg": message}) + "\n"
        if self.service == "payments":
            return f"{stamp} [{level}] [{component}] {message}\n"
        return f"{stamp} {level:5} {component}: {message}\n"

    def _filled(self, text: str) -> str:
        return re.sub(r"{(\w+)}", lambda found: self._value(found.group(1)), text)

    def _value(self, kind: str) -> str:
        number = self.draw.number
        match kind:
            case "n":
                return str(number(0, 9_999)) if number(0, 4) else f"{number(0, 99)}.{number(0, 99)}"
            case "ip":
                return f"10.{number(0, 255)}.{number(0, 255)}.{number(1, 254)}"
            case "id":
                return f"{number(0, 2**32 - 1):08x}-{number(0, 65535):04x}-4{number(0, 4095):03x}-8000-{number(0, 2**48 - 1):012x}"
            case "hex":
                return f"0x{number(0, 2**32 - 1):08x}" if number(0, 1) else f"a{number(0, 2**40 - 1):010x}7"
            case "time":
                return f"2026-10-{number(1, 31):02}T{number(0, 23):02}:00:00Z"
            case "bytes":
                return "'caf\udce9-\udcff\udcfe'"
            case _:
                quote = self.draw.pick("'\"")
                return f"{quote}{self.draw.pick(NAMES)}{quote}"


# Requirements


def make_requirements(directory: Path) -> list[dict[str, Any]]:
    """Cloche's own files, and variants of its lock with one defect each; returns the planted defects."""
    own = directory / "cloche"
    own.mkdir()
    lock = (ROOT / ".ci" / "requirements.lock").read_text()
    (own / "requirements.lock").write_text(lock)
    shutil.copyfile(ROOT / ".ci" / "requirements-dev.lock", own / "requirements-dev.lock")
    ranges = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    (own / "requirements.in").write_text("# what Cloche asks for\n" + "\n".join(ranges) + "\n")
    draw = Draw(SEED)
    planted = []
    for kind, change in VARIANTS.items():
        lines = lock.splitlines()
        heads = [number for number, line in enumerate(lines) if "==" in line and not line.startswith((" ", "#"))]
        where = draw.pick(heads)
        name, _, version = lines[where].removesuffix("\\").strip().partition("==")
        places = change(lines, where, name, version)
        path = f"variants/{kind}/requirements.lock"
        (directory / path).parent.mkdir(parents=True)
        (directory / path).write_text("\n".join(lines) + "\n")
        package = re.sub(r"[-_.]+", "-", name).lower()
        planted.append({"kind": kind, "package": package, "path": path, "lines": places})
    return planted


def _unpin(lines: list[str], where: int, name: str, version: str) -> list[int]:
    lines[where] = lines[where].replace(f"=={version}", f">={version}")
    return [where + 1]


def _unhash(lines: list[str], where: int, name: str, version: str) -> list[int]:
    end = where + 1
    while end < len(lines) and lines[end].lstrip().startswith("--hash"):
        end += 1
    lines[where:end] = [f"{name}=={version}"]
    return [where + 1]


def _repeat(lines: list[str], where: int, name: str, version: str) -> list[int]:
    lines.append(f"{name.upper()}=={version}.0 --hash=sha256:{'0' * 64}")
    return [where + 1, len(lines)]


def _contradict(lines: list[str], where: int, name: str, version: str) -> list[int]:
    lines.append(f"{name}=={version}.1 --hash=sha256:{'1' * 64}")
    return [where + 1, len(lines)]


def _differ(lines: list[str], where: int, name: str, version: str) -> list[int]:
    lines[where] = lines[where].replace(f"=={version}", f"=={version}.post1")
    return [where + 1]


VARIANTS = {
    "unpinned": _unpin,
    "unhashed": _unhash,
    "duplicate": _repeat,
    "conflicting": _contradict,
    "differing": _differ,
}


# Weekly report

AUTHORS = ("Amara", "Bo", "Chidi", "Dana")
VERBS = ("Fix", "Add", "Speed up", "Remove", "Document", "Test")
THINGS = (
    "the import of invoices",
    "retries of the client",
    "the nightly export",
    "search in archives",
    "the login page",
)
WEEK = "2026-W48"


def make_weekly(directory: Path) -> dict[str, Any]:
    """Ten weeks of commits, a changelog and a to-do list; returns the facts of week 48."""
    draw = Draw(SEED)
    monday, sunday = date(2026, 11, 23), date(2026, 11, 29)
    commits = []
    for _ in range(400):
        day = date(2026, 9, 28) + timedelta(days=draw.number(0, 69))
        commits.append((day, draw.pick(AUTHORS), f"{draw.pick(VERBS)} {draw.pick(THINGS)}"))
    commits.sort()
    text = "".join(f"{i:07x}\t{day}\t{author}\t{what}\n" for i, (day, author, what) in enumerate(commits, 0xA000001))
    (directory / "commits.txt").write_text(text)
    (directory / "CHANGELOG.md").write_text(CHANGELOG)
    todos = [_todo(draw, number) for number in range(1, 121)]
    rows = ["id,title,owner,status,due,closed", *(",".join(map(str, todo.values())) for todo in todos)]
    (directory / "todo.csv").write_text("\n".join(rows) + "\n")
    inside = [commit for commit in commits if monday <= commit[0] <= sunday]
    left = [todo for todo in todos if todo["closed"] == "" or todo["closed"] > str(sunday)]
    return {
        "week": WEEK,
        "commits": len(inside),
        "authors": {name: n for name in AUTHORS if (n := sum(commit[1] == name for commit in inside))},
        "closed": [todo["id"] for todo in todos if str(monday) <= todo["closed"] <= str(sunday)],
        "open": len(left),
        "overdue": [todo["id"] for todo in left if "" < todo["due"] <= str(sunday)],
    }


def _todo(draw: Draw, number: int) -> dict[str, str]:
    due = date(2026, 9, 28) + timedelta(days=draw.number(0, 120))
    # Most are closed around their due date; a few are late.
    closed = due + timedelta(days=draw.number(-9, 2)) if draw.number(0, 19) else None
    known = closed is not None and closed <= date(2026, 12, 6)
    return {
        "id": f"T-{number:03}",
        "title": f"{draw.pick(VERBS)} {draw.pick(THINGS)}",
        "owner": draw.pick(AUTHORS),
        "status": "done" if known else "open",
        "due": str(due),
        "closed": str(closed) if known else "",
    }


CHANGELOG = """# Changelog

## Unreleased

- Invoices are imported in one pass, which also reads
  the old format
- The client retries 3 times before it gives up

## 4.2 (2026-11-02)

- The export runs at night
"""


def main() -> None:
    """Make the inputs where the command line says."""
    parser = argparse.ArgumentParser(description="Make the inputs of the example packages.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--megabytes", type=int, default=50, help="size of the logs")
    asked = parser.parse_args()
    made = ensure(asked.directory, megabytes=asked.megabytes)
    print(f"{made.logs}\n{made.requirements}\n{made.weekly}")


if __name__ == "__main__":
    main()
