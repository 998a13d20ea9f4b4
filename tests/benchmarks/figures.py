"""The statistics of the benchmarks and nothing else: no clock, no input, no output.

Absolute times say little on a shared machine, and drift says less. What is measured and its baseline therefore take turns, each
round gives one ratio of neighbours in time, and the figure is the median of those. What is counted (bytes, executions) says something
by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

SLACK = 1.6
"""A band is this many times its target: wide enough for a busy machine, narrow enough for a regression."""

Unit = Literal["s", "ms", "µs", "B", "KB", "calls"]
_BASE: dict[Unit, tuple[str, float, int]] = {
    "s": ("s", 1.0, 2),
    "ms": ("s", 1e3, 1),
    "µs": ("s", 1e6, 0),
    "B": ("B", 1.0, 0),
    "KB": ("B", 1e-3, 1),
    "calls": ("calls", 1.0, 0),
}
"""For each unit that people read: the unit that figures are kept in, how many of the one make the other, and shown decimals."""


@dataclass(frozen=True)
class Target:
    """What a figure should not exceed: its `ratio` to the baseline, or its `median`, in seconds, bytes or calls."""

    of: Literal["ratio", "median"]
    most: float

    @property
    def band(self) -> float:
        """Past this a check fails."""
        return self.most * SLACK


@dataclass(frozen=True)
class Figure:
    """One row. `median` and `baseline_median` are in seconds, bytes or calls, whatever `unit` they are shown in.

    `ratio` is the median of the rounds' ratios, not the ratio of these two; None when the two are not to be divided.
    """

    name: str
    unit: Unit
    median: float
    baseline: str
    baseline_median: float | None
    ratio: float | None
    rounds: int
    target: Target | None = None

    @property
    def judged(self) -> float:
        """The number that the target is about."""
        if self.target is not None and self.target.of == "ratio":
            assert self.ratio is not None, f"{self.name} has no ratio to judge"
            return self.ratio
        return self.median

    @property
    def verdict(self) -> Literal["", "within target", "within band", "outside band"]:
        """Empty without a target."""
        if self.target is None:
            return ""
        if self.judged <= self.target.most:
            return "within target"
        return "within band" if self.judged <= self.target.band else "outside band"

    def shown(self, amount: float | None) -> str:
        """A number of this figure's kind in the unit for people; empty for None."""
        if amount is None:
            return ""
        _, scale, decimals = _BASE[self.unit]
        return f"{amount * scale:,.{decimals}f} {self.unit}"

    def to_dict(self) -> dict[str, object]:
        """For `--json`; numbers in `unit`, which is s, B or calls."""
        target = self.target
        return {
            "name": self.name,
            "unit": _BASE[self.unit][0],
            "median": self.median,
            "baseline": self.baseline,
            "baseline_median": self.baseline_median,
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
    """A row from the numbers of both, round by round.

    Raises:
        ValueError: no rounds, unequally many, or a baseline that took no time.
    """
    if not measured or len(measured) != len(baselines):
        raise ValueError(f"{len(measured)} rounds of {name} beside {len(baselines)} of its baseline")
    if min(baselines) <= 0:
        raise ValueError(f"a baseline of {name} took no time")
    ratio = median(one / other for one, other in zip(measured, baselines, strict=True))
    return Figure(name, unit, median(measured), baseline, median(baselines), ratio, len(measured), target)


def alone(
    name: str,
    *,
    measured: Sequence[float],
    unit: Unit,
    target: Target | None = None,
    baseline: str = "",
    beside: float | None = None,
) -> Figure:
    """A row that is judged by itself; `beside` stands there to be looked at, and nothing is divided by it.

    Raises:
        ValueError: nothing was measured, or the target is about a ratio.
    """
    if not measured:
        raise ValueError(f"no rounds of {name}")
    if target is not None and target.of == "ratio":
        raise ValueError(f"{name} has no ratio to have a target for")
    return Figure(name, unit, median(measured), baseline, beside, None, len(measured), target)


def difference_quotients(few: Sequence[float], many: Sequence[float], *, steps: int) -> list[float]:
    """Round by round, what one of `steps` more steps cost: what both have in common, such as a start, cancels out.

    Raises:
        ValueError: `steps` is not positive.
    """
    if steps <= 0:
        raise ValueError(f"{steps} more steps")
    return [(more - less) / steps for less, more in zip(few, many, strict=True)]


def differences(whole: Sequence[float], part: Sequence[float]) -> list[float]:
    """Round by round, what the one took longer than the other; less than nothing is told as it is."""
    return [more - less for more, less in zip(whole, part, strict=True)]


def fastest(named: Iterable[tuple[str, Sequence[float]]]) -> tuple[str, Sequence[float]]:
    """The one whose median is smallest, with its rounds.

    Raises:
        ValueError: there is none.
    """
    return min(named, key=lambda one: median(one[1]))


def outside(figures: Sequence[Figure]) -> list[Figure]:
    """Those that a check fails on."""
    return [figure for figure in figures if figure.verdict == "outside band"]
