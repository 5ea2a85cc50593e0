"""A custom DRA driver on a real control plane: the API server takes our claims, and the scheduler counts."""

import json

import pytest

from kube.names import RESOURCE_SLICES_PATH
from testbed.gpu_nodes import GpuNode
from testbed.process import eventually
from tests.control_plane.offered_cards import API, CLASSES
from tests.control_plane.test_claims_of_shares import COUNTS_CAPACITY, create, running, unschedulable

DRIVER, CLASS = "gpu.example.com", "cards.example.com"
CUSTOM = {"driver": DRIVER, "capacity": "vram", "productName": "model"}

pytestmark = pytest.mark.skipif(
    not COUNTS_CAPACITY, reason="this Kubernetes has DRAConsumableCapacity only behind a gate"
)


@pytest.fixture
def webhook(serve):
    """The webhook and its controller, under a policy of this driver."""
    policy = {"mode": "dra", "driver": "custom", "custom": {**CUSTOM, "deviceClass": CLASS}}
    options = ("--claim-templates", f"--custom-driver={json.dumps(CUSTOM)}")
    return serve(f"resources: {json.dumps(policy)}\nlimiter: none", *options)[1]


@pytest.fixture
def cards(control_plane, nodes):
    """A node with a card of the driver, and a device of it without memory; the class has no selector."""
    api, [node] = control_plane.api, nodes(GpuNode(gpus=0))
    card = {
        "name": "card-0",
        "allowMultipleAllocations": True,
        "attributes": {"model": {"string": "Example A100 80GB"}},
        "capacity": {"vram": {"value": "80Gi"}},
    }
    metadata = {"name": f"{node}-custom"}
    spec = {
        "driver": DRIVER,
        "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "a-nic"}, card],
    }
    of_class = {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": CLASS}, "spec": {}}
    of_node = {"apiVersion": API, "kind": "ResourceSlice", "metadata": metadata, "spec": spec}
    api.call("POST", CLASSES, of_class)
    api.call("POST", RESOURCE_SLICES_PATH, of_node)
    yield node
    api.call("DELETE", f"{RESOURCE_SLICES_PATH}/{metadata['name']}")
    api.call("DELETE", f"{CLASSES}/{CLASS}")


@pytest.mark.usefixtures("webhook")
def test_shares_fill_a_card_of_a_custom_driver_and_the_next_waits(control_plane, namespace, cards):
    create(control_plane, namespace, ["one", "two"], "0.500")
    eventually(lambda: running(control_plane, namespace) == {"one", "two"}, "both halves run")
    claims = control_plane.api.list("ResourceClaim", namespace, API)
    held = [each for claim in claims for each in claim["status"]["allocation"]["devices"]["results"]]
    assert [(each["pool"], each["device"]) for each in held] == [(cards, "card-0")] * 2
    assert [each["consumedCapacity"] for each in held] == [{"vram": "40Gi"}] * 2
    create(control_plane, namespace, ["late"])
    eventually(lambda: unschedulable(control_plane, namespace) == {"late"}, "the next waits")
