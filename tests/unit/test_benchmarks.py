"""The statistics of the benchmarks, on given numbers and given records. Nothing is timed here."""

from __future__ import annotations

import json

import pytest

from tests.benchmarks.__main__ import table
from tests.benchmarks.figures import (
    SLACK,
    Target,
    alone,
    compare,
    difference_quotients,
    differences,
    fastest,
    outside,
)
from tests.benchmarks.interrupted import up_to_last_start
from tests.benchmarks.journal_size import beyond_values
from tests.benchmarks.ledger import Repeats, repeats
from tests.benchmarks.rounds import Told, interleaved
from tests.benchmarks.waiting import each


def test_the_figure_is_the_median_of_the_ratios_of_neighbours_so_that_drift_cancels() -> None:
    drifting = [1.0, 2.0, 4.0, 8.0, 16.0]
    figure = compare("run", measured=[1.5 * t for t in drifting], baseline="raw", baselines=drifting)
    assert (figure.ratio, figure.median, figure.baseline_median, figure.rounds) == (1.5, 6.0, 4.0, 5)


def test_one_outlier_moves_no_figure() -> None:
    figure = compare("run", measured=[1.0, 1.0, 90.0], baseline="raw", baselines=[1.0, 1.0, 1.0])
    assert (figure.ratio, figure.median) == (1.0, 1.0)


def test_the_difference_quotient_leaves_out_what_both_have_in_common() -> None:
    per_step = difference_quotients([10.0 + 50 * 0.25, 3.0], [10.0 + 550 * 0.25, 1003.0], steps=500)
    assert per_step == [0.25, 2.0]


def test_a_difference_quotient_needs_steps_and_equally_many_rounds() -> None:
    with pytest.raises(ValueError, match="0 more steps"):
        difference_quotients([1.0], [2.0], steps=0)
    with pytest.raises(ValueError, match="zip"):
        difference_quotients([1.0], [2.0, 3.0], steps=1)


@pytest.mark.parametrize(
    ("measured", "baselines", "told"),
    [([], [], "0 rounds"), ([1.0], [1.0, 2.0], "1 rounds of run beside 2"), ([1.0], [0.0], "took no time")],
)
def test_rounds_that_cannot_be_compared_are_refused(measured: list[float], baselines: list[float], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        compare("run", measured=measured, baseline="raw", baselines=baselines)


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [
        (1.25, "within target"),
        (1.2501, "within band"),
        (1.25 * SLACK, "within band"),
        (1.25 * SLACK + 0.001, "outside band"),
    ],
)
def test_a_ratio_is_judged_by_target_and_band(ratio: float, verdict: str) -> None:
    figure = compare("run", measured=[ratio], baseline="raw", baselines=[1.0], target=Target("ratio", 1.25))
    assert figure.verdict == verdict
    assert (figure in outside([figure])) == (verdict == "outside band")


def test_a_target_of_the_median_judges_it_and_not_the_ratio() -> None:
    figure = compare("start", measured=[0.3], baseline="python", baselines=[0.01], target=Target("median", 0.2))
    assert (figure.judged, figure.verdict) == (0.3, "within band")


def test_a_figure_without_a_target_is_never_outside() -> None:
    figure = compare("list", measured=[100.0], baseline="half", baselines=[1.0])
    assert (figure.verdict, outside([figure])) == ("", [])


def test_actions_take_turns_and_warm_rounds_do_not_count() -> None:
    done: list[str] = []
    taken = interleaved(lambda: done.append("a"), lambda: done.append("b"), rounds=2, warm=1)
    assert "".join(done) == "ababab"
    assert [len(seconds) for seconds in taken] == [2, 2]


def test_what_is_prepared_before_a_round_is_not_timed_and_told_seconds_count_instead_of_measured_ones() -> None:
    done: list[str] = []

    def act() -> Told:
        done.append("a")
        return Told(0.25)

    taken = interleaved(act, rounds=2, warm=1, before=lambda: done.append("-"))
    assert ("".join(done), taken) == ("-a-a-a", [[0.25, 0.25]])


def test_the_table_and_the_json_say_the_same() -> None:
    figure = compare(
        "call", measured=[0.0005], baseline="two", baselines=[0.00025], unit="µs", target=Target("ratio", 2.5)
    )
    line = table([figure]).splitlines()[1]
    assert line.split("  ")[0] == "call"
    assert all(text in line for text in ("500 µs", "250 µs", "2.00", "≤ 2.5 × (band 4.00 ×)", "within target"))
    document = figure.to_dict()
    assert (document["ratio"], document["verdict"]) == (2.0, "within target")
    assert (document["unit"], document["median"]) == ("s", 0.0005)
    assert document["target"] == {"of": "ratio", "most": 2.5, "band": 4.0}


def test_what_is_counted_is_judged_by_itself_and_divided_by_nothing() -> None:
    figure = alone("repeated", measured=[0], unit="calls", target=Target("median", 0), baseline="peer", beside=3)
    line = table([figure]).splitlines()[1]
    assert (figure.verdict, figure.ratio) == ("within target", None)
    assert all(text in line for text in ("0 calls", "peer", "3 calls", "≤ 0 calls (band 0 calls)"))


def test_one_execution_too_many_is_outside_a_target_of_none() -> None:
    figure = alone("repeated", measured=[1], unit="calls", target=Target("median", 0))
    assert outside([figure]) == [figure]


def test_bytes_are_kept_as_bytes_and_shown_as_people_read_them() -> None:
    figure = alone("memory", measured=[87_654.0], unit="KB", target=Target("median", 100_000))
    line = table([figure]).splitlines()[1]
    assert all(text in line for text in ("87.7 KB", "≤ 100.0 KB (band 160.0 KB)"))
    assert (figure.to_dict()["unit"], figure.to_dict()["median"]) == ("B", 87_654.0)


def test_a_figure_without_a_baseline_cannot_have_a_target_for_the_ratio() -> None:
    with pytest.raises(ValueError, match="no ratio"):
        alone("size", measured=[1], unit="B", target=Target("ratio", 2.0))
    with pytest.raises(ValueError, match="no rounds of size"):
        alone("size", measured=[], unit="B")


def test_what_a_resume_takes_beyond_a_new_run_may_be_less_than_nothing() -> None:
    assert differences([1.5, 2.0], [1.0, 2.25]) == [0.5, -0.25]
    with pytest.raises(ValueError, match="zip"):
        differences([1.0], [])


def test_the_fastest_peer_is_the_one_with_the_smallest_median() -> None:
    lucky_once, steady = ("lucky once", [0.1, 9.0, 9.0]), ("steady", [2.0, 2.0, 9.0])
    assert fastest([lucky_once, steady]) == steady
    with pytest.raises(ValueError):
        fastest([])


@pytest.mark.parametrize(
    ("executions", "found"),
    [
        ([0, 1, 2, 3], Repeats(0, 0)),
        ([0, 1, 1, 2], Repeats(0, 1)),
        ([0, 1, 1, 1, 2], Repeats(0, 2)),
        ([0, 1, 2, 1, 2, 3], Repeats(1, 1)),
        ([0, 1, 2, 3, 1, 2, 3, 4], Repeats(2, 1)),
        ([0, 0], Repeats(0, 1)),
        ([], Repeats(0, 0)),
    ],
)
def test_a_step_was_completed_once_a_later_one_was_executed(executions: list[int], found: Repeats) -> None:
    assert repeats(executions) == found


def test_a_calls_own_bytes_are_those_of_all_its_lines_less_its_values() -> None:
    started = _line(s=5, e="call.started", key=["/", "read", 1, "d"], args={"path": "ä.txt"})
    other = _line(s=6, e="call.started", key=["/", "now", 1, "d"], args={})
    completed = _line(s=7, e="call.completed", of=5, result=["one", "two"])
    ended = _line(s=8, e="call.completed", of=6, result=None)
    first = len(started) + len(completed) - len('{"path":"ä.txt"}'.encode()) - len('["one","two"]')
    second = len(other) + len(ended) - len("{}") - len("null")
    assert beyond_values([started, other, completed, ended]) == [first, second]


def test_an_interrupted_journal_ends_with_the_last_call_that_began() -> None:
    lines = [_line(s=n, e=e) for n, e in enumerate(["run.created", "call.started", "call.completed", "call.started"])]
    later = [_line(s=9, e="call.completed"), _line(s=10, e="run.finished")]
    assert up_to_last_start(b"".join(lines + later)) == b"".join(lines)
    with pytest.raises(ValueError, match="no call began"):
        up_to_last_start(lines[0])


def test_a_waiting_run_takes_what_one_more_adds_from_level_to_level() -> None:
    assert each([10, 30, 50], [1_000, 3_000, 7_000]) == [100.0, 200.0]


def _line(**event: object) -> bytes:
    return json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
