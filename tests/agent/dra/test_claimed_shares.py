"""Which containers hold which parts of claims, and that the agent measures what they use of them."""

import pytest

from agent.containers import ContainerName
from agent.dra.checkpoint import PreparedClaim, PreparedDevice
from agent.dra.claimed_shares import ClaimedShares
from agent.gpu import Gpu
from agent.held_slices import HeldSlices
from agent.kubelet import Holder
from testbed.nvidia.cards import RunningProcess
from tests.agent.support.dra import DraKubelet, dra_node
from tests.agent.support.node import agent_with, card, ids, running, until

CONTAINER = "a" * 64
GPUS = Gpu(0, "GPU-0", "A100", 40960), Gpu(1, "GPU-1", "A100", 81920)


def part(mib, request="gpu", gpu=0):
    return PreparedDevice(request, f"gpu-{gpu}", "share-1", f"GPU-{gpu}", mib)


def holder(container, *claims, pod="pod", devices=()):
    return Holder("default", pod, container, devices, claims)


ONE, BOTH = [holder("main", "claim")], [holder("train", "claim"), holder("eval", "claim")]
OLD = holder("main", pod="old", devices=(("nvidia.com/gpu-0", tuple(ids(0, 1, 2))),))
MORE = holder("more", "claim")
LARGE, EQUAL, SMALL = part(10240, "gpu-0"), part(5120, "gpu-0"), part(5120, "gpu-1")
LOST, OF_OTHER_CARD = part(5120, gpu=7), part(5120, "gpu-1", gpu=1)
HELD = {
    "parts of cards in eighths rounded up": (
        ONE,
        [part(5121), part(10240, gpu=1)],
        [("main", 0, 2, 5121), ("main", 1, 1, 10240)],
    ),
    "a whole card without a limit": (ONE, [part(None)], [("main", 0, 8, None)]),
    "nothing by a claim of another driver": ([holder("main", "another")], [SMALL], []),
    "an unknown share of a card that is lost": (ONE, [LOST], [], "main"),
    "a known and an unknown share": (ONE, [part(5120), LOST], [("main", 0, 1, 5120)], "main"),
    "all of the one request that both use": (BOTH, [SMALL], [("train", 0, 1, 5120), ("eval", 0, 1, 5120)]),
    "a part of one card each in the pod's order": (
        BOTH,
        [LARGE, SMALL],
        [("train", 0, 2, 10240), ("eval", 0, 1, 5120)],
    ),
    "parts of two cards of which nobody knows whose": (BOTH, [LARGE, OF_OTHER_CARD], [], "train", "eval"),
    "fewer parts than containers": ([*BOTH, MORE], [LARGE, SMALL], [], "train", "eval", "more"),
    "two equal parts of a card under their limit once": (ONE, [EQUAL, SMALL], [("main", 0, 1, 5120)]),
    "slices from before": ([OLD, *ONE], [SMALL], [("main", 0, 2, 10240), ("main", 0, 1, 5120)]),
}
"""Holders, parts, (container, number of the GPU, eighths, MiB), and who holds an unknown share."""


@pytest.mark.parametrize("what", HELD)
async def test_containers_hold(what):
    holders, parts, known, *unknown = HELD[what]
    prepared = PreparedClaim("default", "claim", "pod-uid", tuple(parts))
    agent = agent_with(GPUS)
    state, slices = agent.state, HeldSlices(agent, are_offered=False)
    found = await ClaimedShares(state, slices, 8, lambda: [prepared]).shares_of(holders)
    shares = [(name.container, each.gpu.index, each.slices, each.memory_mib) for name, each in found.shares]
    assert (shares, [each.container for each in found.unmeasured]) == (known, unknown)
    assert (state.held, state.resized) == (None, {})


async def test_what_a_container_uses_of_its_claim_is_measured(monkeypatch):
    monkeypatch.setattr("agent.usage.PERIOD_SECONDS", 0.01)
    async with dra_node(card(0, processes=(RunningProcess(10, 3072, 30),))) as (node, kubelet, server):
        node.write_process(10, "train_default_main", CONTAINER)
        server.add_claim({"share": "250k"})
        async with running(node, api=server) as process:
            driver = DraKubelet(node)
            await driver.register()
            await driver.prepare()
            kubelet.claims["train", "main"] = ["claim"]
            await until(lambda: process.state.uses)
            [use] = process.state.uses
            assert use.name == ContainerName("default", "train", "main")
            assert (use.gpu, use.memory_mib, use.used_mib, use.busy_percent) == (0, 10240, 3072, 30)
            assert process.state.held is None, "slices are not offered"
