"""Crashes one after the other, each in a run of its own that is then brought to its end and checked."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from time import monotonic

from tests.helpers.chaos import Trial
from tests.helpers.crash_cells import RealStage, Victim, one_of_each, while_a_cell_lives

PROGRAMS = ("sequential", "large", "outputs", "handled", "branches")
ENGINE_PROGRAM = "outputs"
KILLS_OF_A_RUN = 6
AT_MOST_S = 1.5
"""A kill comes at a moment drawn from the first so many seconds of a generation."""


@dataclass
class Tally:
    """What was done and seen. `cells` counts crashes by moment and victim; `failures` says what did not hold."""

    cells: Counter[tuple[str, Victim]] = field(default_factory=Counter)
    kills: Counter[Victim] = field(default_factory=Counter)
    runs: int = 0
    generations: int = 0
    executions: int = 0
    unknown: int = 0
    failures: list[str] = field(default_factory=list)
    longest_s: float = 0.0

    def take(self, trial: Trial) -> None:
        """Count a run that came to its end."""
        history = trial.history()
        self.runs += 1
        self.generations += history.generation
        self.executions += len(trial.executions())
        self.unknown += sum(record.lost for record in history.records.values())


@dataclass
class Matrix:
    """Crashes on one stage; `say` gets a line now and then."""

    real: RealStage
    tally: Tally
    say: Callable[[str], object]

    def column(self, victim: Victim, *, every: int) -> None:
        """Kill the victim at every named moment at which there is one (the engine: once at each name)."""
        for program in (ENGINE_PROGRAM,) if victim == "engine" else PROGRAMS:
            moments = self.real.stage.moments(program)
            if victim == "cell":
                moments = while_a_cell_lives(moments)
            if victim == "engine":
                moments = one_of_each(moments)
            self.say(f"{victim}, {program}: {len(moments[::every])} of {len(moments)} moments")
            for point, nth in moments[::every]:
                with self._trial(program, f"{victim} killed at {point} {nth}", victim) as trial:
                    if self.real.crash(victim, trial, point, nth):
                        self.tally.cells[point, victim] += 1
                        self.tally.kills[victim] += 1

    def at_random(self, draw: Random, kills: int) -> None:
        """So many kills at random moments: of the owner, of a cell (one in six), of the engine (one in fifty)."""
        done = 0
        while done < kills:
            program = draw.choice(PROGRAMS)
            with self._trial(program, f"killed at random, the {done}th", "engine") as trial:
                for _ in range(draw.randint(1, KILLS_OF_A_RUN)):
                    number = draw.randrange(150)
                    victim: Victim = "engine" if number < 3 else "cell" if number < 28 else "orchestrator"
                    if self.real.crash_after(victim, trial, draw.uniform(0, AT_MOST_S)):
                        self.tally.kills[victim] += 1
                done += trial.kills
            self.say(f"random: {done} of {kills}")

    @contextmanager
    def _trial(self, program: str, what: str, victim: Victim) -> Iterator[Trial]:
        """A run that is crashed in the block, then brought to its end and checked; what does not hold is noted."""
        trial, begun = self.real.stage.trial(program), monotonic()
        try:
            yield trial
            trial.to_the_end()
            trial.check_end()
            self.real.check_nothing_left(reap=victim == "engine")
            self.tally.take(trial)
        except AssertionError as error:
            where = traceback.extract_tb(error.__traceback__)[-1].line
            self.tally.failures.append(f"{program}, {what}: {error} [{where}] ({trial.job.run_id})")
            self.say(self.tally.failures[-1])
            self.real.stage.server.kill()
        self.tally.longest_s = max(self.tally.longest_s, monotonic() - begun)
