"""Which containers hold which parts of claims, and that the agent measures what they use of them."""

import asyncio

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


def holder(container, *claims, pod="pod", **devices):
    held = tuple((f"nvidia.com/{name}", tuple(each)) for name, each in devices.items())
    return Holder("default", pod, container, held, claims)


def held(holders, *parts):
    """(container, number of the GPU, eighths, MiB) of all shares, and who holds an unknown one."""
    prepared = PreparedClaim("default", "claim", "pod-uid", parts)
    agent = agent_with(GPUS)
    state, slices = agent.state, HeldSlices(agent, are_offered=False)
    found = asyncio.run(ClaimedShares(state, slices, 8, lambda: [prepared]).shares_of(holders))
    assert (state.held, state.resized) == (None, {})
    return [
        (name.container, share.gpu.index, share.slices, share.memory_mib) for name, share in found.shares
    ], [each.container for each in found.unmeasured]


ONE, BOTH = [holder("main", "claim")], [holder("train", "claim"), holder("eval", "claim")]
OLD = holder("main", pod="old", **{"gpu-0": ids(0, 1, 2)})
HELD = {
    "parts of cards in eighths rounded up": (
        ONE,
        [part(5121), part(10240, gpu=1)],
        [("main", 0, 2, 5121), ("main", 1, 1, 10240)],
        [],
    ),
    "a whole card without a limit": (ONE, [part(None)], [("main", 0, 8, None)], []),
    "nothing by a claim of another driver": ([holder("main", "another")], [part(5120)], [], []),
    "an unknown share of a card that is lost": (ONE, [part(5120, gpu=7)], [], ["main"]),
    "a known and an unknown share": (
        ONE,
        [part(5120), part(5120, gpu=7)],
        [("main", 0, 1, 5120)],
        ["main"],
    ),
    "all of the one request that both use": (
        BOTH,
        [part(5120)],
        [("train", 0, 1, 5120), ("eval", 0, 1, 5120)],
        [],
    ),
    "a part of one card each in the pod's order": (
        BOTH,
        [part(10240, "gpu-0"), part(5120, "gpu-1")],
        [("train", 0, 2, 10240), ("eval", 0, 1, 5120)],
        [],
    ),
    "parts of two cards of which nobody knows whose": (
        BOTH,
        [part(10240, "gpu-0"), part(5120, "gpu-1", gpu=1)],
        [],
        ["train", "eval"],
    ),
    "fewer parts than containers": (
        [*BOTH, holder("more", "claim")],
        [part(10240, "gpu-0"), part(5120, "gpu-1")],
        [],
        ["train", "eval", "more"],
    ),
    "two equal parts of a card under their limit once": (
        ONE,
        [part(5120, "gpu-0"), part(5120, "gpu-1")],
        [("main", 0, 1, 5120)],
        [],
    ),
    "slices from before": (
        [OLD, *ONE],
        [part(5120)],
        [("main", 0, 2, 10240), ("main", 0, 1, 5120)],
        [],
    ),
}


@pytest.mark.parametrize("what", HELD)
def test_containers_hold(what):
    holders, parts, known, unknown = HELD[what]
    assert held(holders, *parts) == (known, unknown)


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
