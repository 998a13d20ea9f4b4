"""`python -m tests.chaos`: crash runs in real cells on an engine of its own, and print what was done and what did not hold.

Ctrl-C prints what was done so far.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from random import Random
from time import monotonic

from tests.chaos.matrix import PROGRAMS, Matrix, Tally
from tests.helpers.crash_cells import Victim, real_stage
from tests.helpers.crash_checks import chosen_seed
from tests.helpers.private_engine import private_engine

VICTIMS: tuple[Victim, ...] = ("orchestrator", "cell", "engine")


def main() -> int:
    """1 when something did not hold; then the home with its runs is kept."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, help="of the random moments; drawn and printed otherwise")
    parser.add_argument("--kills", type=int, default=1000, help="at random moments (1000)")
    parser.add_argument("--every", type=int, default=1, help="take every so-many-eth named moment (1)")
    parser.add_argument("--only", nargs="+", choices=[*VICTIMS, "random"], default=[*VICTIMS, "random"])
    chosen = parser.parse_args()
    seed = chosen.seed if chosen.seed is not None else chosen_seed()
    tally, begun = Tally(), monotonic()
    root = Path(tempfile.mkdtemp(prefix="chaos-"))

    def say(line: str) -> None:
        print(f"{monotonic() - begun:6.0f} s  {line}", file=sys.stderr, flush=True)

    with private_engine() as private, real_stage(root, private.host, private=private, programs=PROGRAMS) as real:
        matrix = Matrix(real, tally, say)
        with suppress(KeyboardInterrupt):  # what was done until then is told
            for victim in VICTIMS:
                if victim in chosen.only:
                    matrix.column(victim, every=chosen.every)
            if "random" in chosen.only:
                matrix.at_random(Random(seed), chosen.kills)
    print(report(tally, seed, monotonic() - begun))
    if tally.failures:
        print(f"kept: {root}")
        return 1
    shutil.rmtree(root)
    return 0


def report(tally: Tally, seed: int, seconds: float) -> str:
    """The table and what it amounts to."""
    rows = [f"{'moment':<18}" + "".join(f"{victim:>14}" for victim in VICTIMS)]
    for name in dict.fromkeys(point for point, _ in tally.cells):
        rows.append(f"{name:<18}" + "".join(f"{tally.cells[name, victim] or '–':>14}" for victim in VICTIMS))
    kills = ", ".join(f"{tally.kills[victim]} of the {victim}" for victim in VICTIMS)
    rows += [
        "",
        f"kills                {sum(tally.kills.values())} ({kills}), seed {seed}, {seconds / 60:.0f} min",
        f"runs                 {tally.runs} brought to their end in {tally.generations} generations",
        f"real executions      {tally.executions}; calls of unknown outcome, all shown as such: {tally.unknown}",
        f"what did not hold    {len(tally.failures)}",
        *tally.failures,
    ]
    return "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main())
