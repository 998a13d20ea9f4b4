"""What became of each attempt: in the cell, in the control, and what follows. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from engine.sandbox.attempts import Attempt, order

Verdict = Literal["blocked", "through", "unexpected", "unproven"]


@dataclass(frozen=True)
class Said:
    """What came of an attempt in one place. `cause` is what stopped it, "" when it got through; `detail` is for people."""

    through: bool
    cause: str
    detail: str

    @property
    def text(self) -> str:
        """One line for a table."""
        return self.detail if self.through else f"{self.cause}: {self.detail}".removesuffix(": ")


@dataclass(frozen=True)
class ProbeRow:
    """One attempt and its verdict.

    `blocked`: stopped in the cell by what must stop it, and through in the control. `unexpected`: stopped by something else,
    so that what was to be shown was not. `unproven`: the control was stopped as well, so that nothing follows.
    """

    group: str
    name: str
    tries: str
    expect: str
    why: str
    cell: str
    control: str
    verdict: Verdict

    def to_dict(self) -> dict[str, str]:
        """The public JSON form."""
        return dict(vars(self))


@dataclass(frozen=True)
class ProbeReport:
    """All rows, by group and name. `held`: every attempt was blocked."""

    runtime: str
    image_id: str
    policy_digest: str
    rows: tuple[ProbeRow, ...]

    @property
    def held(self) -> bool:
        return bool(self.rows) and all(row.verdict == "blocked" for row in self.rows)

    def of(self, *verdicts: Verdict) -> tuple[ProbeRow, ...]:
        """The rows with one of these verdicts."""
        return tuple(row for row in self.rows if row.verdict in verdicts)

    def with_rows(self, rows: Iterable[ProbeRow]) -> ProbeReport:
        """The same with rows that were made elsewhere, put where they belong."""
        both = sorted((*self.rows, *rows), key=lambda row: order(row.group, row.name))
        return replace(self, rows=tuple(both))


def judged(attempt: Attempt, *, runtime: str, cell: Said, control: Said) -> ProbeRow:
    """The row of an attempt that was made in both places."""
    verdict: Verdict
    if cell.through:
        verdict = "through"
    elif not attempt.expected(runtime, cell.cause):
        verdict = "unexpected"
    elif not control.through:
        verdict = "unproven"
    else:
        verdict = "blocked"
    return ProbeRow(
        group=attempt.group,
        name=attempt.name,
        tries=attempt.tries,
        expect=attempt.expects[runtime],
        why=attempt.why,
        cell=cell.text,
        control=control.text,
        verdict=verdict,
    )
