"""How long an agent takes from its start until the kubelet has its GPUs: printed, and held to nothing.

`AGENT_STARTS` says how often it is started.
"""

import asyncio
import math
import os
import statistics
import sys
import time

import pytest

from tests.agent.support.kubelet import kubelet_in
from tests.agent.support.node import card
from tests.programs.agent.processes import node_for_processes, started

STARTS = int(os.environ.get("AGENT_STARTS", "1"))

pytestmark = pytest.mark.timeout(120 + 20 * STARTS)


async def seconds_until_offered(log):
    """Start one, as the chart does, after a kill: its folders are as the one before left them."""
    with node_for_processes() as node:
        node.write_gpus(card(0), card(1))
        node.write_card_names("GPU-0", "GPU-1")
        async with kubelet_in(node.root) as kubelet:
            for number in range(2):
                log.with_name(str(number)).mkdir()
                begun = time.monotonic()
                process = started(node, log.with_name(str(number)) / "agent.log")
                try:
                    for index in (0, 1):
                        await kubelet.until_offered(f"nvidia.com/gpu-{index}")
                    taken = time.monotonic() - begun
                finally:
                    process.kill()
                    await asyncio.to_thread(process.wait)
                await kubelet.until(lambda: not kubelet.devices)
    return taken


def test_an_agent_that_was_killed_is_back(capsys, tmp_path):
    taken = []
    for number in range(STARTS):
        folder = tmp_path / f"start-{number}"
        folder.mkdir()
        taken.append(asyncio.run(seconds_until_offered(folder / "agent.log")))
    taken.sort()
    with capsys.disabled():
        load = os.getloadavg()[0]
        text = f"p50 {statistics.median(taken):.1f} s, p95 {taken[math.ceil(0.95 * STARTS) - 1]:.1f} s"
        sys.stdout.write(f"\nagent registered after {text}, of {STARTS} starts at load {load:.0f}\n")
