"""An agent of which much is asked for long: what it holds after a quarter of it, and at the end."""

import gc
from dataclasses import replace

import httpx

from tests.agent.support.node import card, ids, served

HOURS = 40
MOST_MORE = 500
"""Objects at the end beyond those after a quarter, of some ten thousands."""
CARDS = card(0), card(1, 81920)


async def hour(number, node, kubelet, port):
    """Pods come and go, a GPU is lost and found, metrics are read, the kubelet may start again."""
    kubelet.held = {}
    for slices in range(1, 8):
        for index in (0, 1):
            resource, given = f"nvidia.com/gpu-{index}", ids(index, *range(slices))
            kubelet.held[f"pod-{number}-{index}", "main"] = {resource: given}
            await kubelet.allocate(resource, *given)
            await kubelet.pre_start(resource, *given)
    async with httpx.AsyncClient(timeout=60) as client:
        answer = await client.get(f"http://127.0.0.1:{port}/metrics")
    assert "fraction_injector_agent_container_slices" in answer.text
    node.write_gpus(replace(CARDS[0], lost=True), CARDS[1])
    await kubelet.until_offered("nvidia.com/gpu-0", 0)
    node.write_gpus(*CARDS)
    await kubelet.until_offered("nvidia.com/gpu-0")
    if number % 4 == 3:
        await kubelet.stop()
        await kubelet.start()
    for index in (0, 1):
        await kubelet.until_offered(f"nvidia.com/gpu-{index}")


async def test_many_hours_leave_nothing_behind(free_tcp_port, monkeypatch):
    monkeypatch.setattr("agent.health.CHECK_SECONDS", 0.05)
    monkeypatch.setattr("agent.registration.SETTLE_SECONDS", 0.3)
    counts = []
    async with served(*CARDS, health_port=free_tcp_port, node="node") as (node, kubelet):
        for number in range(HOURS):
            await hour(number, node, kubelet, free_tcp_port)
            gc.collect()
            counts.append(len(gc.get_objects()))
    assert counts[-1] - counts[HOURS // 4] < MOST_MORE
