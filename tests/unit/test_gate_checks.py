"""The gate counts: each expected case once, passed, from a sandbox that worked; anything else is not passed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import anyio
import pytest

from engine.errors import CellLost, ExchangeError, GateRefused, SandboxError, SandboxUnavailable
from engine.gate.checks import CASE_OUTPUT_BYTES, REPORT_OUTPUT_BYTES, EvidenceMissing, Heard, TestsFailed, gate
from engine.gate.report import Facts, GateReport
from engine.package.contract import GatedPackage, StageSkipped
from engine.package.freeze import freeze
from engine.package.validate import require_valid
from engine.sandbox.frames import CellFrame, Output, Ready
from engine.sandbox.jobs import GateJob
from engine.sandbox.outcome import Cause
from engine.settings import Settings
from tests.helpers.gate_cells import END, Script, ScriptedCells, case, ended, passing, saying
from tests.helpers.publishing import Publisher

THREE = """import pytest
from workflows.say import say


def test_first():
    assert say("a") == "a!"


class TestMore:
    @pytest.mark.parametrize("text", ["b", "c"])
    def test_second(self, text):
        assert say(text)


@pytest.mark.skip(reason="not today")
def test_later():
    assert False
"""


class Bench:
    """One package with three cases to run and one skipped in plain sight, and the gate on it."""

    def __init__(self, root: Path) -> None:
        self.publisher = Publisher(root)
        self.package = require_valid(freeze(self.publisher.write("say", tests=THREE)))
        self.snapshot = self.publisher.services.snapshots.for_candidate(self.package)
        self.clock = self.publisher.services.clock

    def gate(
        self,
        *scripts: Script,
        cells: ScriptedCells | None = None,
        authored: bool = False,
        settings: Settings | None = None,
    ) -> GatedPackage:
        cells = cells or ScriptedCells(scripts)
        self.cells = cells

        async def run() -> GatedPackage:
            return await gate(
                self.package,
                snapshot=self.snapshot,
                open_cell=cells,
                settings=settings or self.publisher.services.settings,
                clock=self.clock,
                authored=authored,
            )

        try:
            return anyio.run(run)
        finally:
            assert cells.closed == cells.opened

    def refused(self, *scripts: Script, cells: ScriptedCells | None = None) -> GateReport:
        with pytest.raises(TestsFailed) as caught:
            self.gate(*scripts, cells=cells)
        assert not caught.value.report.passed
        return caught.value.report


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def outcomes(report: GateReport) -> list[str]:
    return [item.outcome for item in report.cases]


def test_a_package_passes_when_each_case_is_reported_once_and_passed(bench: Bench) -> None:
    gated = bench.gate()
    assert isinstance(gated.report, GateReport)
    assert outcomes(gated.report) == ["passed", "passed", "passed", "skipped"]
    assert gated.report.evidence.found
    assert gated.report.warnings == ()
    assert gated.tree_id == bench.package.tree_id


def test_the_cell_is_asked_for_the_cases_found_in_the_source(bench: Bench) -> None:
    bench.gate()
    first, second = bench.cells.jobs
    assert [(item.cls, item.function, item.index, item.total) for item in first.cases] == [
        ("", "test_first", 0, 1),
        ("TestMore", "test_second", 0, 2),
        ("TestMore", "test_second", 1, 2),
    ]
    assert (first.replace_entry, second.replace_entry) == (False, True)
    assert first.deadline_s == 120.0
    assert bench.cells.snapshots == [bench.snapshot.path] * 2


@pytest.mark.parametrize(
    "outcome",
    ["failed", "error", "timeout", "unscripted", "crashed", "not_collected", "skipped", "xfailed", "PASSED", ""],
)
def test_any_outcome_but_passed_refuses(bench: Bench, outcome: str) -> None:
    report = bench.refused(saying(case(0), case(1, outcome, detail="why"), case(2), END))
    assert [item.ok for item in report.cases] == [True, False, True, True]
    assert bench.cells.opened == 1


def test_a_skip_at_run_time_is_not_the_skip_that_a_reader_can_see(bench: Bench) -> None:
    report = bench.refused(saying(case(0), case(1, "skipped"), case(2), END))
    assert outcomes(report) == ["passed", "skipped_at_run_time", "passed", "skipped"]


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        ((case(0), case(2), END), ["passed", "missing", "passed", "skipped"]),
        ((END,), ["missing", "missing", "missing", "skipped"]),
        ((case(0), case(1), case(2), case(0), END), ["repeated", "passed", "passed", "skipped"]),
        ((case(0, "failed"), case(0), case(1), case(2), END), ["repeated", "passed", "passed", "skipped"]),
    ],
)
def test_missing_and_repeated_reports_refuse(bench: Bench, frames: Sequence[CellFrame], expected: list[str]) -> None:
    assert outcomes(bench.refused(saying(*frames))) == expected


@pytest.mark.parametrize("place", [3, 4, -1, 10**9])
def test_a_report_about_a_case_that_was_not_asked_for_refuses(bench: Bench, place: int) -> None:
    report = bench.refused(saying(case(0), case(1), case(2), case(place), END))
    assert all(item.ok for item in report.cases)
    assert report.problems == ("1 reports are about cases that were not asked for",)


def test_a_good_end_of_the_cell_proves_nothing_about_cases(bench: Bench) -> None:
    report = bench.refused(saying(Ready(), Output("stdout", 0, b"3 passed\n"), END))
    assert outcomes(report) == ["missing", "missing", "missing", "skipped"]


@pytest.mark.parametrize(
    "cause", [Cause.DEADLINE, Cause.SIGNAL, Cause.LIMIT_MEMORY, Cause.MESSAGE, Cause.LIMIT_MESSAGES, Cause.CANCELLED]
)
def test_passed_cases_do_not_count_when_the_cell_ended_otherwise_than_by_itself(bench: Bench, cause: Cause) -> None:
    report = bench.refused(cells=ScriptedCells([passing], end=ended(cause, "x")))
    assert len(report.problems) == 1


def test_the_deadline_names_the_cases_that_were_not_reached(bench: Bench) -> None:
    lost = CellLost("gone")
    report = bench.refused(cells=ScriptedCells([saying(case(0), lost)], end=ended(Cause.DEADLINE, "120 s")))
    assert outcomes(report) == ["passed", "timeout", "timeout", "skipped"]


@pytest.mark.parametrize("cause", [Cause.SUPERVISOR_LOST, Cause.ENGINE_LOST, Cause.OPERATOR])
@pytest.mark.parametrize("frames", [(case(0), case(1), case(2), END), (case(0), CellLost("gone"))])
def test_a_lost_cell_is_a_failure_of_the_sandbox_and_never_of_the_tests(
    bench: Bench, cause: Cause, frames: Sequence[CellFrame | SandboxError]
) -> None:
    with pytest.raises(CellLost) as caught:
        bench.gate(cells=ScriptedCells([saying(*frames)], end=ended(cause)))
    assert caught.value.exit_code == 3


def test_a_broken_exchange_is_a_failure_of_the_sandbox(bench: Bench) -> None:
    with pytest.raises(ExchangeError):
        bench.gate(saying(case(0), case(1), case(2), ExchangeError("frame.not_json")))


def test_without_a_sandbox_nothing_passes(bench: Bench) -> None:
    with pytest.raises(SandboxUnavailable):
        bench.gate(cells=ScriptedCells(unavailable=SandboxUnavailable("no engine")))


def test_a_sandbox_that_fails_while_looking_for_evidence_fails_the_gate(bench: Bench) -> None:
    with pytest.raises(ExchangeError):
        bench.gate(passing, saying(ExchangeError("frame.not_json")))


def replaced(outcome: str) -> Script:
    """Cases with the entry replaced end like this."""
    return lambda job: [*(case(at, outcome) for at in range(len(job.cases))), END]


@pytest.mark.parametrize("outcome", ["passed", "timeout", "crashed", "skipped", "not_collected"])
def test_tests_that_do_not_notice_a_broken_entry_are_a_warning_for_people(bench: Bench, outcome: str) -> None:
    gated = bench.gate(passing, replaced(outcome))
    assert isinstance(gated.report, GateReport)
    assert not gated.report.evidence.found
    assert len(gated.report.warnings) == 1


def test_tests_that_never_call_the_entry_are_a_warning_and_need_no_second_cell(bench: Bench) -> None:
    gated = bench.gate(saying(*(case(at, entered=False) for at in range(3)), END))
    assert isinstance(gated.report, GateReport)
    assert gated.report.evidence.detail == "no passing test calls the entry."
    assert bench.cells.opened == 1


def test_only_cases_that_called_the_entry_are_tried_with_it_replaced(bench: Bench) -> None:
    bench.gate(saying(case(0, entered=False), case(1), case(2, entered=False), END))
    assert [(item.function, item.index) for item in bench.cells.jobs[1].cases] == [("test_second", 0)]


def test_one_failing_case_is_evidence_enough_and_ends_the_second_cell(bench: Bench) -> None:
    never_ends: Callable[[GateJob], list[CellFrame | SandboxError]] = lambda job: [case(0, "failed")]  # noqa: E731
    gated = bench.gate(passing, never_ends)
    assert isinstance(gated.report, GateReport)
    assert gated.report.evidence.found


def test_missing_evidence_refuses_what_a_planner_wrote(bench: Bench) -> None:
    with pytest.raises(EvidenceMissing) as caught:
        bench.gate(passing, replaced("passed"), authored=True)
    assert caught.value.code == "evidence_missing"
    assert caught.value.report.tests_passed


def test_missing_evidence_refuses_where_the_operator_requires_it(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(EvidenceMissing):
        bench.gate(passing, replaced("passed"), settings=Settings(home=tmp_path, require_evidence=True))


def test_without_time_left_evidence_is_missing_and_not_made_up(bench: Bench) -> None:
    def slow(job: GateJob) -> Sequence[CellFrame | SandboxError]:
        bench.clock.seconds += 119.5  # type: ignore[attr-defined]
        return passing(job)

    gated = bench.gate(slow)
    assert isinstance(gated.report, GateReport)
    assert not gated.report.evidence.found
    assert bench.cells.opened == 1


def test_both_cells_share_the_bound(bench: Bench) -> None:
    def slow(job: GateJob) -> Sequence[CellFrame | SandboxError]:
        bench.clock.seconds += 100  # type: ignore[attr-defined]
        return passing(job)

    bench.gate(slow)
    assert bench.cells.jobs[1].deadline_s == 20.0


def test_output_is_kept_head_and_tail(bench: Bench) -> None:
    flood = "h" * CASE_OUTPUT_BYTES + "m" * 10_000_000 + "t" * CASE_OUTPUT_BYTES
    gated = bench.gate(saying(case(0, output=flood), case(1), case(2), END))
    assert isinstance(gated.report, GateReport)
    kept = gated.report.cases[0].output
    assert kept.startswith("hhh")
    assert kept.endswith("ttt")
    assert len(kept) < CASE_OUTPUT_BYTES + 100
    assert "characters cut" in kept


def test_output_of_many_cases_is_bounded_together_as_it_comes() -> None:
    heard = Heard(Facts(image="", policy_digest="", runtime="runc", engine_version="0"))
    for number in range(300):
        heard.take(case(number, output="x" * 300_000, detail="y" * 16_000), 300)
    assert len(heard.results) == 300
    kept = sum(len(result.output) for result in heard.results.values())
    assert REPORT_OUTPUT_BYTES - CASE_OUTPUT_BYTES < kept < REPORT_OUTPUT_BYTES + 300 * 40
    assert max(len(result.detail) for result in heard.results.values()) < 2100


def test_a_snapshot_of_other_bytes_is_no_stage_of_this_package(bench: Bench) -> None:
    other = require_valid(freeze(bench.publisher.write("say", body='return "x"')))
    bench.snapshot = bench.publisher.services.snapshots.for_candidate(other)
    with pytest.raises(StageSkipped):
        bench.gate()
    assert bench.cells.opened == 0


def test_a_cancelled_gate_leaves_no_cell(bench: Bench) -> None:
    cells = ScriptedCells([saying(case(0))])

    async def run() -> None:
        gating = partial(
            gate,
            bench.package,
            snapshot=bench.snapshot,
            open_cell=cells,
            settings=bench.publisher.services.settings,
            clock=bench.clock,
        )
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(gating)
                while not cells.jobs:
                    await anyio.sleep(0.01)
                group.cancel_scope.cancel()

    anyio.run(run)
    assert (cells.opened, cells.closed) == (1, 1)


def test_the_refusal_names_cases_and_what_they_said(bench: Bench) -> None:
    with pytest.raises(GateRefused, match=r"2 of 4 cases did not pass: .*test_first \(failed\)"):
        bench.gate(saying(case(0, "failed", detail="1 != 2"), case(2), END))
