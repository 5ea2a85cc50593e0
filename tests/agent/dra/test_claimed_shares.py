"""Which containers hold which parts of claims, and that the agent measures what they use of them."""

import asyncio
from dataclasses import replace

import pytest

from agent.containers import ContainerName
from agent.dra.checkpoint import PreparedClaim, PreparedDevice
from agent.dra.claimed_shares import ClaimedShares
from agent.gpu import Gpu
from agent.held_slices import HeldSlices
from agent.kubelet import Holder
from testbed.nvidia.cards import RunningProcess
from tests.agent.support.dra import NODE, UID, ApiServer, DraKubelet, driver_on
from tests.agent.support.kubelet import kubelet_in
from tests.agent.support.node import agent_with, card, ids, node_folder, until

CONTAINER = "a" * 64
GPUS = Gpu(0, "GPU-0", "A100", 40960), Gpu(1, "GPU-1", "A100", 81920)


def part(mib, request="gpu", gpu=0):
    return PreparedDevice(request, f"gpu-{gpu}", "share-1", f"GPU-{gpu}", mib)


def holder(container, *claims, pod="pod", **devices):
    held = tuple((f"nvidia.com/{name}", tuple(each)) for name, each in devices.items())
    return Holder("default", pod, container, held, claims)


def held(holders, *parts, claim="claim"):
    """(container, number of the GPU, eighths, MiB) of all shares, and who holds an unknown one."""
    prepared = PreparedClaim("default", claim, "pod-uid", parts)
    agent = agent_with(GPUS)
    state, slices = agent.state, HeldSlices(agent, are_offered=False)
    found = asyncio.run(ClaimedShares(state, slices, 8, lambda: [prepared]).shares_of(holders))
    assert (state.held, state.resized) == (None, {})
    return [
        (name.container, share.gpu.index, share.slices, share.memory_mib) for name, share in found.shares
    ], [each.container for each in found.unmeasured]


def test_a_container_holds_the_parts_of_its_claim_in_eighths_rounded_up():
    assert held([holder("main", "claim")], part(5121), part(10240, gpu=1)) == (
        [("main", 0, 2, 5121), ("main", 1, 1, 10240)],
        [],
    )


def test_a_whole_card_has_all_slices_and_no_limit():
    assert held([holder("main", "claim")], part(None)) == ([("main", 0, 8, None)], [])


def test_claims_of_other_drivers_are_no_shares():
    assert held([holder("main", "another")], part(5120)) == ([], [])
    assert held([holder("main", "claim")], claim="another") == ([], [])


def test_a_container_with_a_card_that_is_lost_is_not_measured_so_that_it_never_counts_as_idle():
    assert held([holder("main", "claim")], part(5120, gpu=7)) == ([], ["main"])
    assert held([holder("main", "claim")], part(5120), part(5120, gpu=7)) == (
        [("main", 0, 1, 5120)],
        ["main"],
    )


def test_containers_that_use_one_request_each_hold_all_of_it():
    both = [holder("train", "claim"), holder("eval", "claim")]
    assert held(both, part(5120)) == ([("train", 0, 1, 5120), ("eval", 0, 1, 5120)], [])


def test_containers_with_parts_of_one_card_hold_one_each_in_the_pods_order():
    both = [holder("train", "claim"), holder("eval", "claim")]
    assert held(both, part(10240, "gpu-0"), part(5120, "gpu-1")) == (
        [("train", 0, 2, 10240), ("eval", 0, 1, 5120)],
        [],
    )


def test_who_of_several_containers_has_which_card_is_unknown():
    both = [holder("train", "claim"), holder("eval", "claim")]
    assert held(both, part(10240, "gpu-0"), part(5120, "gpu-1", gpu=1)) == ([], ["train", "eval"])
    three = [*both, holder("more", "claim")]
    assert held(three, part(10240, "gpu-0"), part(5120, "gpu-1")) == ([], ["train", "eval", "more"])


def test_a_container_of_a_whole_claim_with_equal_parts_of_a_card_has_their_limit_once():
    assert held([holder("main", "claim")], part(5120, "gpu-0"), part(5120, "gpu-1")) == (
        [("main", 0, 1, 5120)],
        [],
    )


def test_pods_with_slices_from_before_are_measured_too():
    old = holder("main", pod="old", **{"gpu-0": ids(0, 1, 2)})
    assert held([old, holder("main", "claim")], part(5120)) == (
        [("main", 0, 2, 10240), ("main", 0, 1, 5120)],
        [],
    )


@pytest.fixture
def node():
    """A node with one GPU, on which a container's process uses 3072 MiB."""
    with node_folder(offer="dra", node=NODE) as node:
        logs, proc = str(node.root / "logs"), str(node.root / "proc")
        node.options = replace(node.options, container_logs=logs, proc=proc)
        (node.root / "logs").mkdir()
        (node.root / "logs" / f"train_default_main-{CONTAINER}.log").touch()
        (node.root / "proc" / "10").mkdir(parents=True)
        (node.root / "proc" / "10" / "cgroup").write_text(f"0::/kubepods/pod1/{CONTAINER}\n")
        node.write_gpus(card(0, processes=(RunningProcess(10, 3072, 30),)))
        node.write_card_names("GPU-0")
        yield node


async def test_what_a_container_uses_of_its_claim_is_measured(node, monkeypatch):
    monkeypatch.setattr("agent.usage.PERIOD_SECONDS", 0.01)
    server = ApiServer()
    server.add_claim({"share": "250k"})
    async with kubelet_in(node.root) as kubelet, driver_on(node, server) as process:
        driver = DraKubelet(node)
        await driver.register()
        await driver.prepare(("claim", UID))
        kubelet.claims["train", "main"] = ["claim"]
        await until(lambda: process.state is not None and process.state.uses)
        [use] = process.state.uses
        assert use.name == ContainerName("default", "train", "main")
        assert (use.gpu, use.memory_mib, use.used_mib, use.busy_percent) == (0, 10240, 3072, 30)
        assert process.state.held is None, "slices are not offered"
