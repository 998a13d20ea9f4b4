"""The statistics of the benchmarks, on given numbers. Nothing is timed here."""

from __future__ import annotations

import pytest

from tests.benchmarks.__main__ import table
from tests.benchmarks.figures import SLACK, Target, compare, difference_quotients, outside
from tests.benchmarks.rounds import interleaved


def test_the_figure_is_the_median_of_the_ratios_of_neighbours_so_that_drift_cancels() -> None:
    drifting = [1.0, 2.0, 4.0, 8.0, 16.0]
    figure = compare("run", measured=[1.5 * t for t in drifting], baseline="raw", baselines=drifting)
    assert (figure.ratio, figure.seconds, figure.baseline_s, figure.rounds) == (1.5, 6.0, 4.0, 5)


def test_one_outlier_moves_no_figure() -> None:
    figure = compare("run", measured=[1.0, 1.0, 90.0], baseline="raw", baselines=[1.0, 1.0, 1.0])
    assert (figure.ratio, figure.seconds) == (1.0, 1.0)


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


def test_a_target_in_seconds_judges_the_median_and_not_the_ratio() -> None:
    figure = compare("start", measured=[0.3], baseline="python", baselines=[0.01], target=Target("seconds", 0.2))
    assert (figure.judged, figure.verdict) == (0.3, "within band")


def test_a_figure_without_a_target_is_never_outside() -> None:
    figure = compare("list", measured=[100.0], baseline="half", baselines=[1.0])
    assert (figure.verdict, outside([figure])) == ("", [])


def test_actions_take_turns_and_warm_rounds_do_not_count() -> None:
    done: list[str] = []
    taken = interleaved(lambda: done.append("a"), lambda: done.append("b"), rounds=2, warm=1)
    assert "".join(done) == "ababab"
    assert [len(seconds) for seconds in taken] == [2, 2]


def test_the_table_and_the_json_say_the_same() -> None:
    figure = compare(
        "call", measured=[0.0005], baseline="two", baselines=[0.00025], unit="µs", target=Target("ratio", 2.5)
    )
    line = table([figure]).splitlines()[1]
    assert line.split("  ")[0] == "call"
    assert all(text in line for text in ("500 µs", "250 µs", "2.00", "≤ 2.5 × (band 4.00 ×)", "within target"))
    document = figure.to_dict()
    assert (document["ratio"], document["verdict"]) == (2.0, "within target")
    assert document["target"] == {"of": "ratio", "most": 2.5, "band": 4.0}
