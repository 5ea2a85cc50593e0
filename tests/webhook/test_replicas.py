"""Replicas of one owner under `place: spread` and `sameModel: true`, from the review to the patch."""

import pytest

from tests.ledger.cluster import gpu_node
from tests.webhook.support import pod, policies
from tests.webhook.support.gpu_pods import webhook_of

OF_JOB = {"ownerReferences": [{"kind": "Job", "name": "train", "uid": "u-1", "controller": True}]}


@pytest.mark.parametrize(
    "of_pod",
    [
        {"metadata": OF_JOB},
        {"metadata": {"generateName": "serve-"}},
        {"labels": {"clearml-agent-queue-name": "research"}},
        {"labels": {"clearml-agent-queue": "id-1"}},
    ],
)
def test_replicas_are_spread_over_nodes_then_over_gpus(of_pod):
    webhook = webhook_of(*map(gpu_node, "abc"), policy_set=policies("place: spread"))
    decided = [webhook.decide(pod(fraction="0.125", **of_pod), uid=f"{number}") for number in range(6)]
    placements = [each.outcome.injection.placement for each in decided]
    found = [(placement.node, placement.indices) for placement in placements]
    assert sorted(found[:3]) == [("a", (0,)), ("b", (0,)), ("c", (0,))]
    assert sorted(found[3:]) == [("a", (1,)), ("b", (1,)), ("c", (1,))]


@pytest.mark.parametrize("other", ["A100", "A" * 63])
def test_the_model_of_the_first_pod_is_required_of_all_and_another_denied_in_one_line(other):
    nodes = [gpu_node("h"), gpu_node("i"), gpu_node("a")]
    for node, model in zip(nodes, ["H" * 63, "H" * 63, other], strict=True):
        node.labels["nvidia.com/gpu.product"] = model
    webhook = webhook_of(*nodes, policy_set=policies("sameModel: true"))
    for node in ("h", None):
        selector = {"kubernetes.io/hostname": node} if node else {}
        decided = webhook.decide(pod(metadata=OF_JOB, nodeSelector=selector), uid=f"on-{node}")
        assert decided.outcome.injection.placement.products == ("H" * 63,)
    denied = webhook.decide(pod(metadata=OF_JOB, nodeSelector={"nvidia.com/gpu.product": other}))
    assert denied.code == "no-matching-node"
    assert denied.message.startswith("no node of this cluster could ever hold the pod: sameModel requires H")
    assert denied.message.endswith("change the pod's demands, or delete those pods")
    assert len(denied.message) <= 200
