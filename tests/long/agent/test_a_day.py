"""24 hours of an agent in half a minute: what it holds after a quarter, and at their end."""

import asyncio
import signal
import subprocess
import sys
from dataclasses import replace

import grpc
import httpx
import msgspec

from testbed.nodes.agent import LIMITS_BY_AGENT
from tests.agent.support.kubelet import kubelet_in
from tests.agent.support.node import card, ids
from tests.programs.agent.processes import node_for_processes

HOURS = 24
SPEED = HOURS * 3600 / 20
"""A day takes 20 s at least."""
MAX_GROWTH = 1.03
"""Objects at the end, by those after a quarter."""
CARDS = card(0), card(1, 81920)


class Day:
    """An agent by a fast clock, and what an hour has for it."""

    def __init__(self, node, kubelet, process):
        self.node, self.kubelet, self.process = node, kubelet, process

    async def hour(self, number):
        """Pods come and go, a GPU is lost and found, metrics are read, the kubelet may start again."""
        self.kubelet.held = {}
        for slices in range(1, 8):
            for index in (0, 1):
                given = ids(index, *range(slices))
                self.kubelet.held[f"pod-{number}-{index}", "main"] = {f"nvidia.com/gpu-{index}": given}
                await self.start(f"nvidia.com/gpu-{index}", given)
            await self.scrape()
        self.node.write_gpus(replace(CARDS[0], lost=True), CARDS[1])
        await self.kubelet.until_offered("nvidia.com/gpu-0", 0)
        self.node.write_gpus(*CARDS)
        await self.kubelet.until_offered("nvidia.com/gpu-0")
        if number % 4 == 3:
            await self.kubelet.stop()
            await self.kubelet.start()
            for index in (0, 1):
                await self.kubelet.until_offered(f"nvidia.com/gpu-{index}")

    async def start(self, resource, given):
        """Start a container; again, where the plugin was just about to register once more."""
        while True:
            try:
                await self.kubelet.allocate(resource, *given)
                await self.kubelet.pre_start(resource, *given)
            except (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.CancelledError):
                # The channel of a plugin that goes cancels calls or refuses them; the test is not cancelled.
                if asyncio.current_task().cancelling():
                    raise
                await self.kubelet.until_offered(resource)
            else:
                return

    async def scrape(self):
        """Read the metrics as Prometheus does."""
        async with httpx.AsyncClient(timeout=60) as client:
            answer = await client.get(f"http://127.0.0.1:{self.port}/metrics")
        assert "fraction_injector_agent_container_slices" in answer.text

    async def objects(self):
        """How many the process holds."""
        self.process.send_signal(signal.SIGUSR1)
        return int(await self.process.stdout.readline())


async def live(port):
    with node_for_processes(health_port=port, node="node") as node:
        node.write_gpus(*CARDS)
        node.write_card_names("GPU-0", "GPU-1")
        (node.root / "policies").mkdir()
        (node.root / "policies" / "default.yaml").write_text(LIMITS_BY_AGENT)
        options = msgspec.json.encode(node.options).decode()
        command = [sys.executable, "-m", "tests.long.agent.day", str(SPEED), options]
        async with kubelet_in(node.root) as kubelet:
            process = await asyncio.create_subprocess_exec(
                *command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            try:
                return await day(Day(node, kubelet, process), port)
            finally:
                process.kill()
                await process.wait()


async def day(agent, port):
    """Live through it; return the objects after a quarter, and at the end."""
    agent.port = port
    for index in (0, 1):
        await agent.kubelet.until_offered(f"nvidia.com/gpu-{index}")
    quarter, begun = None, asyncio.get_running_loop().time()
    for hour in range(HOURS):
        await agent.hour(hour)
        over = begun + (hour + 1) * 3600 / SPEED - asyncio.get_running_loop().time()
        await asyncio.sleep(max(0.0, over))
        if hour + 1 == HOURS // 4:
            quarter = await agent.objects()
    return quarter, await agent.objects()


def test_a_day_leaves_nothing_behind(free_tcp_port):
    quarter, end = asyncio.run(live(free_tcp_port))
    assert end < quarter * MAX_GROWTH
