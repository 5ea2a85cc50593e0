"""What a bench reports: ratios round by round, bars, and rounds that take turns."""

import json

import pytest

from bench.harness import Bar, Figure, cells, interleave, report
from bench.machine import Watch

FIGURE = Figure("reviews", "rps", [30.0, 10.0, 20.0], "A", [10.0, 10.0, 5.0], Bar(">=", 3))


@pytest.mark.parametrize(
    ("bar", "shown"),
    [(Bar(">=", 3), "yes"), (Bar(">=", 3.1), "NO"), (Bar("<=", 3), "yes"), (Bar("<=", 2.9), "NO")],
)
def test_the_median_of_the_ratios_of_each_round_meets_a_bar_or_not(bar, shown):
    figure = Figure("", "", FIGURE.values, "A", FIGURE.references, bar)
    assert figure.ratios == [3.0, 1.0, 4.0]
    assert figure.is_met is (shown == "yes")
    assert shown in cells(figure.as_json())


def test_without_a_reference_the_median_value_is_held_against_the_bar():
    assert Figure("failures", "", [0.0, 0.0, 7.0], bar=Bar("<=", 0)).is_met is True


def test_each_round_goes_through_the_subjects_in_the_other_direction():
    order = []
    subjects = {name: lambda name=name: order.append(name) or len(order) for name in "abc"}
    assert interleave(subjects, 2) == {"a": [1, 6], "b": [2, 5], "c": [3, 4]}


def test_a_report_is_a_table_and_a_file(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("bench.machine._commit", lambda: "0123abc")
    file = tmp_path / "new" / "reviews.json"
    report("reviews", [FIGURE], Watch(), file, load="wrk")
    written = json.loads(file.read_text())
    assert (written["bench"], written["figures"], written["load"]) == ("reviews", [FIGURE.as_json()], "wrk")
    assert "bench-reviews" in capsys.readouterr().out
