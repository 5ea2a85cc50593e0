"""The cards that a DRA driver offers, as claims of shares take them: only whole cards."""

import pytest

from agent.dra.resource_slice import OfferedCard, devices_of, manifest
from agent.gpu import Gpu
from controller.watch.claim_cards import offered_slices
from kube.dra import DRIVER, NVIDIA_DRIVER
from ledger.claimed_cards import ClaimableCard, OfferedSlice
from tests.cluster.objects import read_object


def gpu(uuid, kind="gpu", **more):
    attributes = {"type": {"string": kind}, "uuid": {"string": uuid}, "cores": {"int": 4}} | {
        name: {"string": text} for name, text in more.items()
    }
    return {
        "name": f"gpu-{uuid.lower()}",
        "attributes": attributes,
        "capacity": {"memory": {"value": "40Gi"}},
    }


def resource_slice(name, *devices, node="a", driver=NVIDIA_DRIVER):
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": list(devices)}
    return {"metadata": {"name": name, "resourceVersion": "7"}, "spec": spec}


def read(*devices, driver=NVIDIA_DRIVER, **changes):
    return read_object(offered_slices(), resource_slice("s", *devices, driver=driver, **changes))


def test_a_card_of_nvidias_driver():
    device = gpu("GPU-0", productName="NVIDIA A100-SXM4-40GB") | {"allowMultipleAllocations": True}
    card = ClaimableCard("gpu-gpu-0", 40960, "GPU-0", "NVIDIA A100-SXM4-40GB")
    assert read(device) == OfferedSlice("s", NVIDIA_DRIVER, "a", "a", 1, (card,))


def test_a_slice_as_the_agent_writes_it():
    found = Gpu(2, "GPU-2", "NVIDIA L4", 24576, minor=2)
    offered = [OfferedCard(found, "Xid 79")]
    written = manifest("node-1", "uid", devices_of(offered), 5)
    [card] = read_object(offered_slices(), written).cards
    assert card == ClaimableCard("gpu-2", found.usable_mib, "GPU-2", "NVIDIA L4", taint=f"{DRIVER}/xid=79")


@pytest.mark.parametrize("attribute", [{}, {"memoryMiB": {"int": -1}}, {"memoryMiB": {"int": 2**40}}])
def test_a_card_of_the_agents_driver_without_a_possible_size_is_none_or_has_no_memory(attribute):
    device = {"name": "gpu-0", "attributes": {"type": {"string": "gpu"}} | attribute}
    shared = device | {"capacity": {"share": {"value": "1M"}}}
    found = read(device, shared, driver=DRIVER)
    assert found is None if attribute else [card.mib for card in found.cards] == [0]


def test_a_card_that_one_claim_takes_whole():
    assert [card.is_shareable for card in read(gpu("GPU-0")).cards] == [False]


@pytest.mark.parametrize(
    "device",
    [
        gpu("MIG-7", "mig", parentUUID="GPU-0"),
        gpu("6f1a", "vfio"),
        gpu("GPU-0") | {"capacity": None},
        gpu("GPU-0") | {"capacity": {"multiprocessors": {"value": "14"}}},
        {"name": "gpu-0", "capacity": {"memory": {"value": "1Gi"}}},
    ],
    ids=["mig", "passthrough", "no capacity", "no memory", "no attributes"],
)
def test_devices_that_are_no_whole_card_with_memory(device):
    assert read(device).cards == ()


def test_only_taints_that_keep_pods_away_count():
    health = [{"key": "a/none", "effect": "None"}, {"key": "a/lost", "effect": "NoExecute"}]
    tainted = gpu("GPU-0") | {"taints": health}
    assert [card.taint for card in read(tainted, gpu("GPU-1") | {"taints": health[:1]}).cards] == [
        "a/lost",
        "",
    ]


def test_slices_of_other_drivers_have_no_cards():
    assert read(gpu("GPU-0"), driver="other.example.com").cards == ()


def test_texts_can_be_printed():
    [card] = read(gpu("GPU-\x1b", productName="A\n\x1b[31m")).cards
    assert (card.uuid, card.model) == ("GPU-?", "A??[31m")


@pytest.mark.parametrize("amount", ["-1Gi", 7, "8191Pi"], ids=["negative", "a number", "too large"])
def test_one_with_an_amount_that_no_card_has_is_not_read(amount):
    assert read(gpu("GPU-0") | {"capacity": {"memory": {"value": amount}}}) is None
