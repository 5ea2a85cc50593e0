"""The state of an agent says what changed to its followers."""

import asyncio

import pytest

from agent.container_use import ContainerUse
from agent.containers import ContainerName
from agent.gpu import Gpu
from agent.state import AgentState

CARD = Gpu(0, "GPU-a", "NVIDIA A100", 40960)


async def test_a_change_wakes_followers_and_a_repetition_does_not():
    state = AgentState([CARD])
    waiting = asyncio.ensure_future(state.next_version(state.version))
    await asyncio.sleep(0)
    assert not waiting.done()
    state.mark("GPU-a", "Xid 79")
    assert await waiting == state.version
    seen = state.version
    state.mark("GPU-a", "Xid 79")
    assert state.version == seen
    state.mark("GPU-a", None)
    assert await state.next_version(seen) > seen
    assert state.unhealthy == {}


@pytest.mark.parametrize(
    ("idle_since", "reported"),
    [(900, [(1, 1000), (1, 1000), (2, 1060), (2, 1060), (3, 1120)]), (None, [(1, 1000)] * 5)],
)
async def test_while_a_container_is_idle_each_minute_says_that_the_agent_still_measures(idle_since, reported):
    use = ContainerUse(ContainerName("team", "train", "main"), 0, 6400, 0, 0, 0, 0, 0, idle_since)
    state, found = AgentState([CARD]), []
    for now in (1000, 1045, 1060, 1119, 1120):
        state.set_uses([use], now)
        found.append((state.version, state.uses_measured))
    assert found == reported
