"""The state of an agent says what changed to its followers."""

import pytest

from agent.container_use import ContainerUse
from agent.containers import ContainerName
from agent.gpu import Gpu
from agent.state import AgentState

CARD = Gpu(0, "GPU-a", "NVIDIA A100", 40960)


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
    state.set_uses([], 1121)
    assert state.uses_measured == 1121, "a container that holds nothing more is news at once"
