"""Replicas under `place: spread` and `sameModel: true`, from the review to the patch."""

import pytest

from kube.names import GPU_PRODUCT_LABEL
from ledger.ledger import Ledger
from modes.facts import PodFact
from tests.ledger.cluster import gpu_node
from tests.webhook.support import Webhook, pod, policies, review_of

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
OF_JOB = {"ownerReferences": [{"kind": "Job", "name": "train", "uid": "u-1", "controller": True}]}
QUEUE = {"clearml-agent-queue-name": "research"}


def of_model(name, product, mib=81920):
    labels = {"nvidia.com/gpu.memory": str(mib), GPU_PRODUCT_LABEL: product}
    return gpu_node(name, 2, mib, labels=labels)


def cluster(*nodes):
    ledger = Ledger()
    ledger.replace(nodes, [])
    return ledger


def webhook(text, *nodes, **files):
    return Webhook(
        policies(text, **files), cluster(*(nodes or (gpu_node("a"), gpu_node("b"), gpu_node("c"))))
    )


def admitted(found, count, **of_pod):
    """Nodes and indices of some pods that are admitted one after the other."""
    decided = [
        found.send(review_of(pod(fraction="0.125", **of_pod), uid=f"{number}")) for number in range(count)
    ]
    return [
        (each.outcome.injection.placement.node, each.annotations["clearml-injector/gpu-index"])
        for each in decided
    ]


@pytest.mark.parametrize(
    "of_pod",
    [
        {"metadata": OF_JOB},
        {"metadata": {"generateName": "serve-"}},
        {"labels": QUEUE},
        {"labels": {"clearml-agent-queue": "id-1"}},
    ],
)
def test_replicas_are_spread_over_nodes_then_over_gpus(of_pod):
    found = admitted(webhook("place: spread"), 6, **of_pod)
    assert sorted(found[:3]) == [("a", "0"), ("b", "0"), ("c", "0")]
    assert sorted(found[3:]) == [("a", "1"), ("b", "1"), ("c", "1")]


FLEET = (of_model("a", "A100"), of_model("h", "H100"), of_model("i", "H100"))


def kept_to(product):
    return [
        {"key": "nvidia.com/gpu.memory", "operator": "In", "values": ["81920"]},
        {"key": "nvidia.com/gpu.product", "operator": "In", "values": [product]},
    ]


def node_affinity(decided):
    return decided.spec["affinity"]["nodeAffinity"]


def after_one_on(node, *nodes):
    """A webhook under `sameModel` where a pod of the Job runs on a node."""
    found = webhook("sameModel: true", *nodes)
    first = found.send(review_of(pod(metadata=OF_JOB), uid="first")).outcome.injection.placement
    ledger = found.ledger
    owner = next(iter(ledger._owners._on_nodes))
    ledger.release(first.reservation)
    ledger.set_pod(PodFact(namespace="team", name="p", node=node, takes=((0, 4), (1, 4)), owner=owner))
    return found


def test_the_model_of_the_first_pod_is_required_of_all():
    found = after_one_on("h", *FLEET)
    for number in range(3):
        affinity = node_affinity(found.send(review_of(pod(metadata=OF_JOB), uid=f"{number}")))
        assert affinity[REQUIRED] == {"nodeSelectorTerms": [{"matchExpressions": kept_to("H100")}]}
        assert affinity[PREFERRED][0]["preference"]["matchFields"][0]["values"][0] in ("h", "i")


def test_a_pod_that_demands_another_model_is_denied_in_one_line_that_says_what_to_do():
    found = after_one_on("h", *FLEET)
    denied = found.decide(pod(metadata=OF_JOB, nodeSelector={GPU_PRODUCT_LABEL: "A100"}))
    assert denied.code == "no-matching-node"
    assert denied.message == (
        "no node of this cluster could ever hold the pod: sameModel requires H100, as its owner's pods"
        " have: change the pod's demands, or delete those pods"
    )
    longest = after_one_on("h", of_model("a", "A"), of_model("h", "H" * 63))
    denied = longest.decide(pod(metadata=OF_JOB, nodeSelector={GPU_PRODUCT_LABEL: "A"}))
    assert denied.message.endswith("change the pod's demands, or delete those pods")
    assert len(denied.message) <= 200
