"""The statistics of the benchmarks and nothing else: no clock, no input, no output.

Absolute times say little on a shared machine, and drift says less. What is measured and its baseline therefore take turns, each
round gives one ratio of neighbours in time, and the figure is the median of those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

SLACK = 1.6
"""A band is this many times its target: wide enough for a busy machine, narrow enough for a regression."""

Unit = Literal["s", "ms", "µs"]
_PER_SECOND: dict[Unit, float] = {"s": 1.0, "ms": 1e3, "µs": 1e6}


@dataclass(frozen=True)
class Target:
    """What a figure should not exceed: its `ratio` to the baseline, or its `seconds`."""

    of: Literal["ratio", "seconds"]
    most: float

    @property
    def band(self) -> float:
        """Past this a check fails."""
        return self.most * SLACK


@dataclass(frozen=True)
class Figure:
    """One row. `seconds` and `baseline_s` are medians; `ratio` is the median of the rounds' ratios, not the ratio of these two."""

    name: str
    unit: Unit
    seconds: float
    baseline: str
    baseline_s: float
    ratio: float
    rounds: int
    target: Target | None = None

    @property
    def judged(self) -> float:
        """The number that the target is about."""
        return self.seconds if self.target is not None and self.target.of == "seconds" else self.ratio

    @property
    def verdict(self) -> Literal["", "within target", "within band", "outside band"]:
        """Empty without a target."""
        if self.target is None:
            return ""
        if self.judged <= self.target.most:
            return "within target"
        return "within band" if self.judged <= self.target.band else "outside band"

    def shown(self, seconds: float) -> str:
        """A time in this figure's unit."""
        return f"{seconds * _PER_SECOND[self.unit]:.{1 if self.unit == 'ms' else 0 if self.unit == 'µs' else 2}f} {self.unit}"

    def to_dict(self) -> dict[str, object]:
        """For `--json`; times in seconds."""
        target = self.target
        return {
            "name": self.name,
            "median_s": self.seconds,
            "baseline": self.baseline,
            "baseline_s": self.baseline_s,
            "ratio": self.ratio,
            "rounds": self.rounds,
            "target": None if target is None else {"of": target.of, "most": target.most, "band": target.band},
            "verdict": self.verdict,
        }


def compare(
    name: str,
    *,
    measured: Sequence[float],
    baseline: str,
    baselines: Sequence[float],
    unit: Unit = "ms",
    target: Target | None = None,
) -> Figure:
    """A row from the seconds of both, round by round.

    Raises:
        ValueError: no rounds, unequally many, or a baseline that took no time.
    """
    if not measured or len(measured) != len(baselines):
        raise ValueError(f"{len(measured)} rounds of {name} beside {len(baselines)} of its baseline")
    if min(baselines) <= 0:
        raise ValueError(f"a baseline of {name} took no time")
    ratio = median(one / other for one, other in zip(measured, baselines, strict=True))
    return Figure(name, unit, median(measured), baseline, median(baselines), ratio, len(measured), target)


def difference_quotients(few: Sequence[float], many: Sequence[float], *, steps: int) -> list[float]:
    """Round by round, what one of `steps` more steps cost: what both have in common, such as a start, cancels out.

    Raises:
        ValueError: `steps` is not positive.
    """
    if steps <= 0:
        raise ValueError(f"{steps} more steps")
    return [(more - less) / steps for less, more in zip(few, many, strict=True)]


def outside(figures: Sequence[Figure]) -> list[Figure]:
    """Those that a check fails on."""
    return [figure for figure in figures if figure.verdict == "outside band"]
