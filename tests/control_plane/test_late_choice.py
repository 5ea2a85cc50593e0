"""Mode dra: the scheduler chooses the card by all that it knows, which nobody can when the pod is created."""

import pytest

from testbed.api import MERGE_PATCH
from testbed.gpu_nodes import GpuNode
from testbed.process import eventually
from testbed.registration import labelled_pod
from tests.control_plane import test_claims_of_shares
from tests.control_plane.test_claims_of_shares import admitted, allocated, create, running

device_class, offer, webhook = (
    test_claims_of_shares.device_class,
    test_claims_of_shares.offer,
    test_claims_of_shares.webhook,
)
pytestmark = test_claims_of_shares.pytestmark
HOST, RDMA, ONE = "kubernetes.io/hostname", "rdma/hca_shared", "nvidia.com/mig-1g.10gb"
NO_OTHER = {"labelSelector": {"matchLabels": {"app": "chat"}}, "topologyKey": HOST}
DEVICE = {"name": "main", "image": "example.com/task:1", "resources": {"limits": {RDMA: "1"}}}
SUITED = {
    "anti-affinity": {
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [NO_OTHER]}}
    },
    "rdma": {"containers": [DEVICE]},
    "local-volume": {"volumes": [{"name": "home", "persistentVolumeClaim": {"claimName": "home"}}]},
}
VOLUMES = "/api/v1/persistentvolumes"


@pytest.fixture
def suits(control_plane, namespace):
    """Give a node RDMA, and the volume of the claim "home"."""
    api, name = control_plane.api, f"volume-{namespace}"

    def one(node):
        amounts = {RDMA: "63"}
        change = {"status": {"capacity": amounts, "allocatable": amounts}}
        api.call("PATCH", f"/api/v1/nodes/{node}/status", change, content=MERGE_PATCH)
        here = {"matchExpressions": [{"key": HOST, "operator": "In", "values": [node]}]}
        common = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
        volume = {
            "capacity": {"storage": "1Gi"},
            "local": {"path": "/data"},
            "claimRef": {"name": "home", "namespace": namespace},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [here]}},
        }
        claim = {"volumeName": name, "resources": {"requests": {"storage": "1Gi"}}}
        kind = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}}
        api.call("POST", VOLUMES, {**kind, "spec": common | volume})
        kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "home"}}
        api.create({**kind, "spec": common | claim}, namespace)

    yield one
    api.call("DELETE", f"{VOLUMES}/{name}")


def test_pods_that_one_node_suits_get_its_free_card_although_another_has_room_beside_a_pod(
    control_plane, namespace, offer, webhook, suits
):
    alpha, beta = offer([81920, 81920], [81920, 81920])
    suits(beta)
    part = labelled_pod("part", "0.5", nodeSelector={HOST: alpha})
    part["metadata"]["labels"]["app"] = "chat"
    admitted(control_plane, namespace, part)
    for name, node in (("full-a", alpha), ("full-b", beta)):
        create(control_plane, namespace, [name], "1", nodeSelector={HOST: node})
    eventually(lambda: len(running(control_plane, namespace)) == 3, "they run")
    [taken] = [card for node, card, *_ in allocated(control_plane, namespace) if node == beta]
    [free] = {"gpu-0", "gpu-1"} - {taken}
    for name, spec in SUITED.items():
        create(control_plane, namespace, [name], "0.5", **spec)
        eventually(lambda name=name: name in running(control_plane, namespace), f"the pod with {name} runs")
        assert (beta, free, "gpu", "500k") in allocated(control_plane, namespace), name
        control_plane.api.delete("Pod", name, namespace)
        eventually(lambda: len(allocated(control_plane, namespace)) == 3, "its card is free again")


def test_under_prefer_the_first_pod_gets_the_free_instance_and_the_next_a_claim(
    control_plane, namespace, nodes, offer, serve
):
    [divided] = nodes(GpuNode(gpus=0, product="NVIDIA-A100-SXM4-80GB", instances={ONE: 1}))
    [card] = offer([81920])
    serve(f"{test_claims_of_shares.POLICY.replace('dra}', 'dra, prefer: [mig, dra]}')}", "--claim-templates")
    first = admitted(control_plane, namespace, labelled_pod("first", "0.125"))
    assert first["spec"]["containers"][0]["resources"]["limits"] == {ONE: "1"}
    second = admitted(control_plane, namespace, labelled_pod("second", "0.125"))
    assert "limits" not in second["spec"]["containers"][0]["resources"]
    eventually(lambda: running(control_plane, namespace) == {"first", "second"}, "both run")
    pods = {pod["metadata"]["name"]: pod["spec"] for pod in control_plane.api.list("Pod", namespace)}
    assert (pods["first"]["nodeName"], pods["second"]["nodeName"]) == (divided, card)
    assert allocated(control_plane, namespace) == [(card, "gpu-0", "gpu", "125k")]
