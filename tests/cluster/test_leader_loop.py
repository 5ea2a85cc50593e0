"""The loop that the leader's tasks share."""

import asyncio
from types import SimpleNamespace

import pytest

from cluster.leader_loop import BUDGET_SECONDS, while_leading
from service import background
from tests.service.virtual_time import VirtualTimeLoop


async def kept(run, heartbeat):
    """Run as a background task runs, with its heartbeat."""
    background._heartbeat.set(heartbeat)
    await run()


def test_a_step_and_a_sign_of_life_follow_each_other_until_another_leads():
    seen, replica = [], SimpleNamespace(leads=True)

    async def step():
        seen.append("step")
        replica.leads = len(seen) < 3

    asyncio.run(kept(lambda: while_leading(replica, step, 0), lambda: seen.append("heartbeat")))
    assert seen == ["step", "heartbeat"] * 2


def test_a_replica_that_does_not_lead_takes_no_step():
    asyncio.run(while_leading(SimpleNamespace(leads=False), pytest.fail, 0))


@pytest.mark.parametrize("error", [OSError("no API server"), TimeoutError("within the step")])
def test_a_step_that_fails_is_no_sign_of_life(error):
    async def step():
        raise error

    with pytest.raises(type(error), match=str(error)):
        asyncio.run(kept(lambda: while_leading(SimpleNamespace(leads=True), step, 0), pytest.fail))


def test_a_step_that_takes_too_long_is_cut_off_and_the_next_one_is_taken():
    seen, replica = [], SimpleNamespace(leads=True)

    async def step():
        seen.append(asyncio.get_running_loop().time())
        replica.leads = len(seen) < 2
        await asyncio.sleep(10 * BUDGET_SECONDS)

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(kept(lambda: while_leading(replica, step, 1), lambda: seen.append("heartbeat")))
    assert seen == [0, "heartbeat", BUDGET_SECONDS + 1, "heartbeat"]
