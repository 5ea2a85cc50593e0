"""How a node is divided, by what it says."""

import pytest

from controller.geometry.node_view import is_paused


@pytest.mark.parametrize(
    ("divided_at", "paused"),
    [
        ("2026-01-01T00:00:50Z", True),
        ("2026-01-01T00:02:50Z", True),
        ("2030-01-01T00:00:00Z", False),
        ("x", False),
    ],
    ids=["before", "by a clock that is ahead", "a time that cannot be", "no time"],
)
def test_a_clock_that_was_wrong_prolongs_a_pause_by_one_at_most(divided_at, paused):
    assert is_paused(divided_at, 100.0, 1767225700.0) is paused
