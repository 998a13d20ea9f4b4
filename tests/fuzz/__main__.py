"""`make fuzz`: a number of seconds, split over the targets; each runs in a process of its own, one after the other.

A crashing input is kept below `.cache/fuzz-found/`, the corpus below `.cache/fuzz-corpus/`, so that the next run goes on
where this one ended. Exits with 1 when anything was found.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.fuzz.targets import TARGETS

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / ".cache" / "fuzz-corpus"
FOUND = ROOT / ".cache" / "fuzz-found"
LOG = ROOT / ".cache" / "fuzz-log.jsonl"
INPUT_S = 30
"""An input that takes longer is a finding; the slowest that is known takes a tenth of it (docs/reference/fuzzing.md)."""
MEMORY_MIB = 1024
_COVERED = re.compile(r"cov: (\d+) ft: (\d+) corp: (\d+)")
_RUNS = re.compile(r"stat::number_of_executed_units: (\d+)")


def main() -> int:
    """Fuzz; 1 when something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="for all targets together")
    parser.add_argument("--target", action="append", choices=list(TARGETS), help="only this one; may be repeated")
    options = parser.parse_args()
    names = options.target or list(TARGETS)
    seconds = max(1, options.seconds // len(names))
    found = [name for name in names if not fuzz(name, seconds)]
    for name in found:
        tell_how_to_repeat(name)
    return 1 if found else 0


def fuzz(name: str, seconds: int) -> bool:
    """One target for so many seconds; False when it found something."""
    corpus, kept = CORPUS / name, FOUND / name
    for directory in (corpus, kept):
        directory.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(TARGETS[name].seeds()):
        (corpus / f"seed-{number:03d}").write_bytes(seed)
    before = set(kept.iterdir())
    argv = [
        *(sys.executable, "-m", "tests.fuzz.drive", name, str(corpus)),
        *(f"-max_total_time={seconds}", f"-timeout={INPUT_S}", f"-rss_limit_mb={MEMORY_MIB}"),
        *(f"-artifact_prefix={kept}/", "-print_final_stats=1", "-reload=0"),
    ]
    done = subprocess.run(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    output = done.stdout.decode(errors="replace")
    figures = {"target": name, "seconds": seconds, "exit": done.returncode, **_figures(output)}
    with LOG.open("a") as log:
        log.write(json.dumps(figures) + "\n")
    print(json.dumps(figures), flush=True)
    if done.returncode:
        print(_without_progress(output)[-6000:], file=sys.stderr)
    return done.returncode == 0 and set(kept.iterdir()) == before


def _figures(output: str) -> dict[str, int]:
    covered, runs = _COVERED.findall(output), _RUNS.findall(output)
    made = {"runs": int(runs[-1])} if runs else {}
    for when, at in (("at_seeds", 0), ("at_end", -1)):
        if covered:
            branches, features, inputs = (int(figure) for figure in covered[at])
            made |= {f"branches_{when}": branches, f"features_{when}": features, f"inputs_{when}": inputs}
    return made


def _without_progress(output: str) -> str:
    return "\n".join(line for line in output.splitlines() if not line.startswith("#"))


def tell_how_to_repeat(name: str) -> None:
    """Where the input is, how to see it fail again, and how to keep it as a test."""
    for path in _newest_first(FOUND / name):
        print(
            f"cloche: {name} fails for {path}\n"
            f"  again:  .venv/bin/python -m tests.fuzz.repeat {name} {path}\n"
            f"  a test: make it short, and add it to FOUND in tests/unit/test_fuzz_found.py",
            file=sys.stderr,
        )


def _newest_first(directory: Path) -> Iterator[Path]:
    yield from sorted(directory.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)


if __name__ == "__main__":
    sys.exit(main())
