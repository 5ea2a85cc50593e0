"""A card with slices from before slicesPerGpu changed: the kubelet cannot count them beside the new ones."""

import msgspec
import pytest

from agent.settings import LimiterPart
from tests.agent.support.node import HAMI, PER_GPU, card, ids, node_with, running

NAME = "nvidia.com/gpu-0"
HALF = ids(0, 4, 5, 6, 7)
"""Of a card with eight slices; of one with four, the kubelet would take no slice for allocated."""


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr("agent.usage.PERIOD_SECONDS", 0.01)


@pytest.mark.parametrize("limiter", [HAMI, LimiterPart("none")], ids=["limited here", "limited at admission"])
@pytest.mark.parametrize("size", [4, 16])
async def test_it_gets_no_new_pod_until_they_have_ended(size, limiter):
    eighths = msgspec.structs.replace(PER_GPU, limiter=limiter)
    async with node_with(card(0)) as (node, kubelet):
        async with running(node, eighths):
            await kubelet.until_offered(NAME)
            answer = await kubelet.allocate(NAME, *HALF)
        kubelet.write_checkpoint(("uid", "main", NAME, HALF, answer))
        kubelet.held["old", "main"] = {NAME: HALF}
        kubelet.first_devices.clear()
        async with running(node, msgspec.structs.replace(eighths, slices_per_gpu=size)) as process:
            assert await kubelet.until_first_offered(NAME) == 0
            assert "pods hold slices of it from when it had 8" in process.state.unhealthy["GPU-0"]
            # The kubelet's file says it until the next pod; its books do not.
            kubelet.held.clear()
            await kubelet.until_offered(NAME, size)


async def test_without_pod_resources_the_kubelets_file_says_it():
    async with node_with(card(0)) as (node, kubelet):
        kubelet.write_checkpoint(("uid", "main", NAME, HALF, "8"))
        kubelet.lists = False
        async with running(node, msgspec.structs.replace(PER_GPU, slices_per_gpu=16)):
            assert await kubelet.until_first_offered(NAME) == 0
            kubelet.write_checkpoint(("uid", "main", NAME, HALF, None))  # what does not say its size
            await kubelet.until_offered(NAME, 16)
