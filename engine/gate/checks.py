"""The gate: a package's own tests, run in a cell, counted against the list of cases that the host found in the source.

What a cell says is believed only where the supervisor says it about the one case it is about. Each expected case must be
reported exactly once, as passed; the exit status proves nothing. A second cell runs passing cases with the entry replaced by
one that raises: tests that pass all the same exercise nothing. When the sandbox fails, nothing is known and SandboxError
leaves here; there is no way around the cell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from engine.catalog.snapshots import PinnedSnapshot
from engine.clock import Clock
from engine.errors import CellLost, GateRefused
from engine.gate.cells import GateCell, GateCellFactory
from engine.gate.report import CaseReport, Evidence, Facts, GateReport
from engine.package.contract import GatedPackage, StageSkipped, TestCase, ValidatedPackage, build_gated
from engine.sandbox.frames import CaseResult, End
from engine.sandbox.jobs import Case, GateJob
from engine.sandbox.outcome import Cause, CellEnd
from engine.settings import Settings

CASE_OUTPUT_BYTES: Final = 64 * 1024
"""Output kept of one case, half of it head and half tail."""
REPORT_OUTPUT_BYTES: Final = 4 * 1024 * 1024
"""Output kept in one report; past it cases keep their outcome and lose their output."""
DETAIL_CHARACTERS: Final = 2000
"""Kept of what is told about one case."""
CASE_TIMEOUT_S: Final = 60.0
"""Bound of one case, where the gate as a whole is not shorter."""
LEAST_TIME_S: Final = 1.0
"""With less than this left, the search for evidence is not begun."""

_EXERCISED = frozenset({"failed", "error", "unscripted"})
_SHOWN = 3


class TestsFailed(GateRefused):
    """Not every expected case was reported once and passed; `report` says which."""

    __test__ = False
    code = "tests_failed"

    def __init__(self, report: GateReport) -> None:
        bad = [case for case in report.cases if not case.ok]
        told = [f"{case.id} ({case.outcome})" for case in bad[:_SHOWN]]
        more = [f"{len(bad) - _SHOWN} more"] if len(bad) > _SHOWN else []
        super().__init__(
            f"{report.workflow_id}: {len(bad)} of {len(report.cases)} cases did not pass: "
            + "; ".join([*told, *more, *report.problems]),
            fix="Mend what failed; nothing was published.",
        )
        self.report = report

    def details(self) -> dict[str, Any]:
        """`report`: the statement of a gate that did not pass."""
        return {"report": self.report.to_dict()}


class EvidenceMissing(GateRefused):
    """The tests passed, but do not exercise the entry, and here that is required."""

    code = "evidence_missing"

    def __init__(self, report: GateReport) -> None:
        super().__init__(
            f"{report.workflow_id}: the tests pass without exercising the workflow: {report.evidence.detail}",
            fix="Add a test that calls the entry and checks what it returns or does.",
        )
        self.report = report

    def details(self) -> dict[str, Any]:
        """`report`: the statement of a gate that did not pass."""
        return {"report": self.report.to_dict()}


async def gate(
    package: ValidatedPackage,
    *,
    snapshot: PinnedSnapshot,
    open_cell: GateCellFactory,
    settings: Settings,
    clock: Clock,
    authored: bool = False,
) -> GatedPackage:
    """Run the package's tests on `snapshot`, which holds its bytes and pins, and pass it on when they passed.

    Bounded by `settings.gate_timeout_s` for everything, 60 s a case, 64 KiB of output a case (head and tail). Missing
    evidence of exercise is a warning in the report, and refuses with `authored` or `settings.require_evidence`.

    Raises:
        TestsFailed, EvidenceMissing: the package did not pass; the report travels in the error.
        SandboxError: nothing is known of the package.
        StageSkipped: `snapshot` holds another tree.
    """
    if snapshot.tree_id != package.tree_id or dict(snapshot.pins) != dict(package.candidate.pins):
        raise StageSkipped(
            f"the snapshot of {package.workflow_id} holds another tree or other pins than the candidate."
        )
    report = await _Gate(package, snapshot, open_cell, settings, clock).report(
        required=authored or settings.require_evidence
    )
    if not report.tests_passed:
        raise TestsFailed(report)
    if not report.passed:
        raise EvidenceMissing(report)
    return build_gated(package, report=report)


@dataclass
class Heard:
    """What one cell reported: the first result per place in the job's list, how often, and how it ended.

    Output is clipped as it comes: thousands of cases with as much as a frame holds are not kept in memory.
    """

    facts: Facts
    results: dict[int, CaseResult] = field(default_factory=dict)
    repeated: set[int] = field(default_factory=set)
    surplus: int = 0
    end: CellEnd | None = None
    output_left: int = REPORT_OUTPUT_BYTES

    def take(self, result: CaseResult, expected: int) -> None:
        if not 0 <= result.case < expected:
            self.surplus += 1
        elif result.case in self.results:
            self.repeated.add(result.case)
        else:
            output = _clipped(result.output, min(self.output_left, CASE_OUTPUT_BYTES))
            self.output_left = max(0, self.output_left - len(output))
            self.results[result.case] = replace(
                result, detail=_clipped(result.detail, DETAIL_CHARACTERS), output=output
            )


@dataclass(frozen=True)
class _Gate:
    package: ValidatedPackage
    snapshot: PinnedSnapshot
    open_cell: GateCellFactory
    settings: Settings
    clock: Clock

    async def report(self, *, required: bool) -> GateReport:
        started_at, started_s = self.clock.now(), self.clock.monotonic_s()
        deadline_s = started_s + self.settings.gate_timeout_s
        asked = [case for case in self.package.cases if case.skip_reason is None]
        heard = await self._run(asked, deadline_s=deadline_s, replace_entry=False)
        reports = _case_reports(self.package.cases, asked, heard)
        problems = _problems(asked, heard)
        evidence = Evidence(False, "the tests did not pass.", required)
        if not problems and all(case.ok for case in reports):
            entered = [case for at, case in enumerate(asked) if heard.results[at].entered]
            evidence = await self._evidence(entered, deadline_s=deadline_s, required=required)
        return GateReport(
            workflow_id=self.package.workflow_id,
            tree_id=self.package.tree_id,
            pins=dict(self.snapshot.pins),
            facts=heard.facts,
            cases=reports,
            problems=problems,
            evidence=evidence,
            started_at=started_at,
            duration_s=self.clock.monotonic_s() - started_s,
        )

    async def _evidence(self, entered: Sequence[TestCase], *, deadline_s: float, required: bool) -> Evidence:
        """Whether a case that called the entry fails once the entry only raises."""
        if not entered:
            return Evidence(False, "no passing test calls the entry.", required)
        if deadline_s - self.clock.monotonic_s() < LEAST_TIME_S:
            return Evidence(False, "no time was left to try the tests with the entry replaced.", required)
        heard = await self._run(
            entered, deadline_s=deadline_s, replace_entry=True, until=lambda result: result.outcome in _EXERCISED
        )
        failing = [at for at, result in heard.results.items() if result.outcome in _EXERCISED]
        if not failing:
            return Evidence(False, "every test that calls the entry passes also when the entry only raises.", required)
        return Evidence(
            True, f"{entered[failing[0]].id} calls the entry and fails when the entry only raises.", required
        )

    async def _run(
        self,
        cases: Sequence[TestCase],
        *,
        deadline_s: float,
        replace_entry: bool,
        until: Callable[[CaseResult], bool] = lambda _: False,
    ) -> Heard:
        """Run cases in a cell of their own to its end, or until a result is enough."""
        left_s = max(deadline_s - self.clock.monotonic_s(), LEAST_TIME_S)
        job = GateJob(
            entry=self.package.workflow_id,
            cases=tuple(Case(case.file, case.cls, case.function, case.index, case.total) for case in cases),
            replace_entry=replace_entry,
            deadline_s=left_s,
            case_timeout_s=min(CASE_TIMEOUT_S, left_s),
            output_bytes=CASE_OUTPUT_BYTES,
        )
        async with self.open_cell() as cell:
            heard = Heard(_facts(cell))
            if await _listen(cell, job, self.snapshot.path, heard, until):
                return heard
            heard.end = await cell.finish()
        if heard.end.sandbox_failed:
            raise CellLost(
                f"the cell that tested {self.package.workflow_id} was lost ({heard.end.cause.value}: {heard.end.detail}).",
                fix="Nothing is known of the package; run it again. `cloche doctor` checks the sandbox.",
            )
        return heard


async def _listen(
    cell: GateCell, job: GateJob, snapshot: Path, heard: Heard, until: Callable[[CaseResult], bool]
) -> bool:
    """Take results until the cell's last word or its end without one (False), or until one is enough (True)."""
    await cell.deliver(job, snapshot)
    while True:
        try:
            frame = await cell.receive()
        except CellLost:
            return False  # whose failure it is, `finish` tells from evidence
        if isinstance(frame, End):
            return False
        if isinstance(frame, CaseResult):
            heard.take(frame, len(job.cases))
            if until(frame):
                return True


def _facts(cell: GateCell) -> Facts:
    return Facts(
        image=cell.image, policy_digest=cell.policy_digest, runtime=cell.runtime, engine_version=version("cloche")
    )


def _case_reports(cases: Sequence[TestCase], asked: Sequence[TestCase], heard: Heard) -> tuple[CaseReport, ...]:
    """One report per expected case, in the order of the source."""
    places = {case: at for at, case in enumerate(asked)}
    return tuple(_case_report(case, places.get(case), heard) for case in cases)


def _case_report(case: TestCase, place: int | None, heard: Heard) -> CaseReport:
    if case.skip_reason is not None or place is None:
        return CaseReport(case.id, "skipped", case.skip_reason or "", 0.0, "", False)
    result = heard.results.get(place)
    if result is None:
        deadline = heard.end is not None and heard.end.cause is Cause.DEADLINE
        detail = "the time of the gate was over" if deadline else "it was never reported"
        return CaseReport(case.id, "timeout" if deadline else "missing", detail, 0.0, "", False)
    # "skipped" at run time is no skip that a reader of the source can see
    outcome = {"skipped": "skipped_at_run_time"}.get(result.outcome, result.outcome)
    return CaseReport(
        id=case.id,
        outcome="repeated" if place in heard.repeated else outcome,
        detail=result.detail,
        duration_s=result.duration_s,
        output=result.output,
        entered=result.entered,
    )


def _problems(asked: Sequence[TestCase], heard: Heard) -> tuple[str, ...]:
    problems: list[str] = []
    if not asked:
        problems.append("there is no case to run")
    if heard.surplus:
        problems.append(f"{heard.surplus} reports are about cases that were not asked for")
    if heard.end is not None and heard.end.cause is not Cause.EXIT:
        problems.append(f"the cell ended by {heard.end.cause.value} ({heard.end.detail})")
    return tuple(problems)


def _clipped(text: str, most: int) -> str:
    """Head and tail of `text`, `most` characters together; what was cut is counted."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters cut]\n{text[len(text) - half :]}"
