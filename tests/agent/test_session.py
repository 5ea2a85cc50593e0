"""The agent's session with the driver: while one is open, nobody can replace the driver or reset a card."""

import asyncio
import os
import signal

import pynvml
import pytest

from agent.process import run_agent
from testbed.nodes.agent import LIMITS_BY_AGENT
from tests.agent.support.node import card, node_with, until


@pytest.fixture
async def agent(tmp_path):
    (tmp_path / "default.yaml").write_text(LIMITS_BY_AGENT)
    async with node_with(card(0), policies=str(tmp_path)) as (node, kubelet):
        running = asyncio.ensure_future(run_agent(node.options, None))
        await kubelet.until_offered("nvidia.com/gpu-0")
        yield running, kubelet


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_it_ends_with_the_agent(number, agent):
    running, kubelet = agent
    assert pynvml.nvmlDeviceGetCount() == 1
    os.kill(os.getpid(), number)
    assert await running is False
    await until(lambda: not kubelet.devices)
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        pynvml.nvmlDeviceGetCount()


async def test_an_agent_whose_policy_changes_ends_to_start_again(monkeypatch, agent, tmp_path):
    monkeypatch.setattr("agent.policy.POLL_SECONDS", 0.1)
    (tmp_path / "default.yaml").write_text(LIMITS_BY_AGENT + "memory: {reserveMiB: 100}\n")
    assert await agent[0] is True
