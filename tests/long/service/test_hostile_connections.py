"""A short campaign of hostile connections."""

import asyncio

import pytest
import uvloop

from testbed.hostile_connections import KINDS, campaign


@pytest.mark.parametrize("seed", [14])
def test_hostile_connections_hurt_no_bystander_and_leave_nothing(seed):
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        attack, bystanders, found = runner.run(campaign(300, seed))
    assert found == []
    assert all(bystander.waits for bystander in bystanders)
    assert set(attack.done) == {kind.__name__ for kind in KINDS}
