"""The reference page of runtimes: the table of their differences, and which tests of cells run under one of them alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from cli.reference_alone import alone
from engine.sandbox.runtimes import COSTS, ENDINGS, ENFORCED, Difference

TESTS = Path(__file__).parents[1] / "tests" / "sandbox"

INTRODUCTION = """# Runtimes

A cell runs under `runc` or under gVisor (`runsc`). Everything that the pages say of cells holds under both, except for the rows below.
Code and tests take their expectations from the same table (`engine/sandbox/runtimes.py`), measured on runc 1.1.5 and runsc 20221219.

`auto` takes gVisor where the engine has a runtime `runsc` and a trial cell of it started, attested and ended, else runc. A runtime
that is called `runsc` and gives cells the host's kernel is refused. `cloche doctor` tries both and says why one is not used. A yes
is kept for as long as engine version, program and arguments of the runtime, image and policy stay; a no for an hour, or until
`doctor` saw it pass.

`make gvisor` adds it to an engine that `make engine` started. Elsewhere the operator registers it with these arguments:

| argument | why |
|---|---|
| `--network=none` | no network stack in the sandbox; without it a start may be refused, and then leaves processes behind |
| `--oci-seccomp` | our list of system calls is in force inside as well; without it gVisor answers every call by itself |
| `--host-fifo=open` | pipes that the host put into a mount may be opened, which is how a waiting cell can be woken without polling |
"""

TESTED = """The tests of cells (`tests/sandbox`) run under runc on the engine of the settings, and under gVisor on a second one, in one
`make test`; `test_gvisor_*.py` are about gVisor alone. Commands and servers (`tests/journeys`) run under runc, and one story of theirs
under both. Where processes, signals, files or accounting do not decide, the probe's packages and programs run under runc alone
(`GVISOR` in `test_probe_packages.py` and `test_probe_programs.py`), and of 200 runs that time out 8 do so under gVisor. Of the other
tests of cells, these run under runc alone; a file's reason counts for all its tests but those named beside it:
"""


def runtimes_page() -> str:
    """Markdown, without the notice."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield INTRODUCTION
    yield from _table("Who enforces what", _told(ENFORCED))
    yield from _table("How cells end", _told(ENDINGS))
    yield from _table("What it costs", COSTS)
    yield "## Tests\n"
    yield TESTED
    yield "| under runc alone | why |\n|---|---|"
    yield from (f"| {what} | {why} |" for what, why in alone(TESTS))
    yield ""


def _told(rows: tuple[Difference, ...]) -> Iterable[tuple[str, str, str]]:
    return ((row.what, row.runc.says, row.runsc.says) for row in rows)


def _table(title: str, rows: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    yield f"## {title}\n"
    yield "| what | runc | gVisor |\n|---|---|---|"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""
