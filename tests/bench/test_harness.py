"""What a bench reports: ratios round by round, bars, ranges, and rounds that take turns."""

import json
from pathlib import Path

import pytest

from bench.harness import COLUMNS, Bar, Figure, cells, interleave, report, short
from bench.machine import Watch

FIGURE = Figure("reviews", "rps", [30.0, 10.0, 20.0], "A", [10.0, 10.0, 5.0], Bar(">=", 3))


def test_a_ratio_is_taken_in_each_round():
    assert FIGURE.ratios == [3.0, 1.0, 4.0]


def test_a_reference_with_fewer_rounds_is_an_error():
    with pytest.raises(ValueError, match="shorter"):
        _ = Figure("reviews", "rps", [30.0, 10.0], "A", [10.0]).ratios


@pytest.mark.parametrize(
    ("bar", "shown"),
    [(Bar(">=", 3), "yes"), (Bar(">=", 3.1), "NO"), (Bar("<=", 3), "yes"), (Bar("<=", 2.9), "NO")],
)
def test_the_median_ratio_meets_a_bar_or_not(bar: Bar, shown: str):
    figure = Figure("", "", FIGURE.values, "A", FIGURE.references, bar)
    assert figure.is_met is (shown == "yes")
    assert shown in cells(figure.as_json())


def test_without_a_reference_the_median_value_is_held_against_the_bar():
    assert Figure("failures", "", [0.0, 0.0, 7.0], bar=Bar("<=", 0)).is_met is True


def test_without_a_bar_nothing_is_met_or_missed():
    assert Figure("memory", "MB", [70.0]).is_met is None


def test_the_json_of_a_figure_holds_all_that_its_table_shows_and_each_round():
    assert FIGURE.as_json() == {
        "figure": "reviews",
        "unit": "rps",
        "value": {"median": 20.0, "low": 10.0, "high": 30.0, "each": [30.0, 10.0, 20.0]},
        "reference": {"name": "A", "median": 10.0, "low": 5.0, "high": 10.0, "each": [10.0, 10.0, 5.0]},
        "ratio": {"median": 3.0, "low": 1.0, "high": 4.0, "each": [3.0, 1.0, 4.0]},
        "bar": ">= 3",
        "met": True,
        "rounds": 3,
        "note": "",
    }


def test_a_row_shows_the_ratio_with_its_range():
    row = dict(zip(COLUMNS, cells(FIGURE.as_json()), strict=True))
    assert row == {
        "figure": "reviews",
        "value": "20 rps",
        "reference": "A: 10",
        "ratio (range)": "3.000 (1.000 to 4.000)",
        "bar": ">= 3",
        "met": "yes",
        "rounds": "3",
    }


def test_a_row_without_a_reference_shows_the_range_of_its_values():
    row = cells(Figure("memory", "MB", [71.0, 70.0, 75.5], bar=Bar("<=", 64)).as_json())
    assert row == ["memory", "71 MB (70 to 75.5)", "", "", "<= 64", "NO", "3"]


def test_a_single_value_has_no_range():
    assert cells(Figure("failures", "", [0.0]).as_json())[1] == "0"


def test_each_round_goes_through_the_subjects_in_the_other_direction():
    order: list[str] = []
    subjects = {name: lambda name=name: order.append(name) or len(order) for name in "abc"}
    assert interleave(subjects, 2) == {"a": [1, 6], "b": [2, 5], "c": [3, 4]}
    assert order == ["a", "b", "c", "c", "b", "a"]


def test_a_report_is_a_table_and_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("bench.machine._commit", lambda: "0123abc")
    file = tmp_path / "new" / "reviews.json"
    report("reviews", [FIGURE], Watch(), file, load="wrk")
    written = json.loads(file.read_text())
    assert written["bench"] == "reviews"
    assert written["figures"] == [FIGURE.as_json()]
    assert written["load"] == "wrk"
    assert {"processor", "cores", "python", "versions", "commit", "date", "foreign_load"} == set(
        written["machine"]
    )
    assert "bench-reviews" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("value", "text"), [(12345.6, "12,346"), (999.94, "999.9"), (0.012345, "0.01235"), (-2.0, "-2")]
)
def test_numbers_are_written_with_four_digits_or_without_decimals(value: float, text: str):
    assert short(value) == text
