"""Until when a node is not divided again, by the time that stands on it."""

import pytest

from controller.geometry.pauses import Pauses, time_text

NOON = 1_767_268_800.0


def test_a_pause_is_over_so_many_seconds_after_the_time_on_the_node():
    pauses = Pauses(600.0)
    divided_at = time_text(NOON)
    assert pauses.until("a", divided_at, now=50.0, wall=NOON + 100) == 550.0
    assert pauses.until("a", divided_at, now=549.0, wall=NOON + 599) == 550.0
    assert pauses.end("a") == "2026-01-01T12:10:00Z"
    assert pauses.count(549.0) == 1
    assert pauses.until("a", divided_at, now=550.0, wall=NOON + 600) is None
    assert pauses.count(550.0) == 0


@pytest.mark.parametrize("jump", [-(10**8), -3600.0, 3600.0, 10**8])
def test_a_wall_clock_that_jumps_changes_no_pause_that_has_begun(jump):
    pauses = Pauses(600.0)
    divided_at = time_text(NOON)
    assert pauses.until("a", divided_at, now=0.0, wall=NOON) == 600.0
    assert pauses.until("a", divided_at, now=10.0, wall=NOON + jump) == 600.0


@pytest.mark.parametrize("text", ["2099-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_a_time_in_the_future_makes_no_pause_longer_than_one(text):
    assert Pauses(600.0).until("a", text, now=0.0, wall=NOON) == 600.0


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026-13-01T00:00:00Z", "0001-01-01T00:00:00+23:59", "2026-01-01T00:00:00"]
)
def test_what_is_no_time_or_long_ago_makes_no_pause(text):
    assert Pauses(600.0).until("a", text, now=0.0, wall=NOON + 10**6) is None


def test_a_node_that_is_divided_again_or_gone_begins_again():
    pauses = Pauses(600.0)
    pauses.until("a", time_text(NOON), now=0.0, wall=NOON)
    assert pauses.until("a", time_text(NOON + 700), now=700.0, wall=NOON + 700) == 1300.0
    pauses.keep([])
    assert pauses.count(700.0) == 0
    assert pauses.until("a", None, now=701.0, wall=NOON + 701) is None
