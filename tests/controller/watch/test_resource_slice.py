"""ResourceSlices of a DRA driver: which cards they offer, read with bounds."""

import pytest

from controller.watch.dra_offers import DraOffers
from controller.watch.resource_slice import MAX_CARDS, DraSlice, resource_slices
from kube.names import DRA_DRIVER
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


def resource_slice(name, *devices, node="a", driver=DRA_DRIVER):
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": list(devices)}
    return {"metadata": {"name": name, "resourceVersion": "7"}, "spec": spec}


def read(*devices, name="s", **changes):
    return read_object(resource_slices(DRA_DRIVER), resource_slice(name, *devices, **changes))


def test_cards_are_named_by_their_uuid_and_mig_devices_by_their_parents():
    found = read(
        gpu("GPU-1"), gpu("MIG-7", "mig", parentUUID="GPU-0"), gpu("MIG-8", "mig", parentUUID="GPU-0")
    )
    assert found == DraSlice("s", "a", ("GPU-0", "GPU-1"))


@pytest.mark.parametrize(
    "device",
    [
        gpu("6f1a", "vfio"),
        gpu("MIG-7", "mig"),
        gpu("GPU-0", "new-kind"),
        gpu("x" * 65),
        {"name": "gpu-0"},
        {"name": "gpu-0", "attributes": None},
        {"name": "gpu-0", "attributes": {"type": {"string": "gpu"}, "uuid": {"int": 5}}},
    ],
    ids=["passthrough", "no parent", "new kind", "long", "no attributes", "null", "a number"],
)
def test_a_device_that_names_no_card_may_be_of_any(device):
    assert read(gpu("GPU-0"), device) == DraSlice("s", "a", names_cards=False)


def test_more_cards_than_a_node_has_are_not_kept():
    found = read(*[gpu(f"GPU-{number}") for number in range(MAX_CARDS + 1)])
    assert found == DraSlice("s", "a", names_cards=False)
    assert len(read(*[gpu(f"GPU-{number}") for number in range(MAX_CARDS)]).cards) == MAX_CARDS


@pytest.mark.parametrize(
    "found",
    [
        read(gpu("GPU-0"), driver="gpu.example.com"),
        read(gpu("GPU-0"), node=""),
        read(),
        read_object(
            resource_slices(DRA_DRIVER),
            {"metadata": {"name": "s"}, "spec": {"driver": DRA_DRIVER, "allNodes": True, "devices": None}},
        ),
    ],
    ids=["another driver", "of no node", "counters alone", "of all nodes"],
)
def test_what_is_no_offer_of_a_node_is_not_kept(found):
    offers = DraOffers()
    assert offers.put(found) == set()
    assert (len(offers.names), offers.on("a")) == (0, None)
