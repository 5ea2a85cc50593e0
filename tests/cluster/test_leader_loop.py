"""The loop that the leader's tasks share."""

import asyncio
from types import SimpleNamespace

import pytest

from cluster.leader_loop import while_leading


def test_a_step_and_a_sign_of_life_follow_each_other_until_another_leads():
    seen, replica = [], SimpleNamespace(leads=True)

    async def step():
        seen.append("step")
        replica.leads = len(seen) < 3

    asyncio.run(while_leading(replica, step, 0, lambda: seen.append("heartbeat")))
    assert seen == ["step", "heartbeat"] * 2


def test_a_replica_that_does_not_lead_takes_no_step():
    asyncio.run(while_leading(SimpleNamespace(leads=False), pytest.fail, 0))


def test_a_step_that_fails_is_no_sign_of_life():
    async def step():
        raise OSError("no API server")

    with pytest.raises(OSError, match="no API server"):
        asyncio.run(while_leading(SimpleNamespace(leads=True), step, 0, pytest.fail))
