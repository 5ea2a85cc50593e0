"""When a node is held for its agent, and when it is let go again."""

import pytest

from controller.node_agents.decision import GRACE_SECONDS, decide


@pytest.mark.parametrize(
    ("held", "why", "urgent", "waited", "action"),
    [
        (False, None, False, 0, "leave"),
        (True, None, False, 0, "release"),
        (False, "away", True, 0, "hold"),
        (True, "away", True, 0, "leave"),
        (False, "unregistered", False, GRACE_SECONDS - 1, "leave"),
        (False, "unregistered", False, GRACE_SECONDS, "hold"),
        (True, "unregistered", False, 0, "leave"),
    ],
)
def test_a_short_absence_holds_nothing_and_releases_nothing(held, why, urgent, waited, action):
    assert decide(is_held=held, why=why, urgent=urgent, waited_seconds=waited) == action
