"""When a node is held for its agent, and when it is let go again."""

import pytest

from controller.node_agents.decision import GRACE_SECONDS, decide, decide_left


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


@pytest.mark.parametrize(
    ("held", "offered", "waited", "action"),
    [
        (False, False, 0, "hold"),
        (True, False, 0, "leave"),
        # The node's status may be older than its agent's end.
        (True, True, GRACE_SECONDS - 1, "leave"),
        (True, True, GRACE_SECONDS, "release"),
        (False, True, GRACE_SECONDS, "leave"),
    ],
)
def test_a_node_whose_agent_left_in_use_is_held_unless_others_offer_its_slices(held, offered, waited, action):
    assert decide_left(is_held=held, may_be_offered=offered, waited_seconds=waited) == action
