"""How much a pod may demand of its node is bounded."""

import pytest

from tests.webhook.support import Webhook, decide, pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def required(*terms):
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


def host(*names):
    return {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": list(names)}]}


EXISTS = {"matchExpressions": [{"key": "k", "operator": "Exists"}]}


@pytest.mark.parametrize(
    ("demands", "what"),
    [
        (required(host(*map(str, range(1001)))), "1001 values in required node affinity, more than 1000"),
        (required(EXISTS, *[{}] * 100), "101 terms in required node affinity, more than 100"),
        ({"tolerations": [{"key": f"k{i}"} for i in range(101)]}, "101 tolerations, more than 100"),
        ({"nodeSelector": {f"k{i}": "" for i in range(101)}}, "101 nodeSelector labels, more than 100"),
    ],
)
def test_more_demands_than_can_be_put_to_every_node_are_denied(demands, what):
    decided = decide(pod(**demands))
    assert decided.code == "too-many-demands"
    assert decided.message == f"the pod has {what}: label the nodes, and require that label"


def test_as_many_demands_as_are_allowed_are_not_too_many_with_ours_added():
    webhook = Webhook()
    names = [node.name for node in webhook.ledger.view().nodes]
    first = webhook.decide(pod(**required(*[host(*names) for _ in range(100)])))
    assert first.code == "injected"
    assert webhook.decide(first.stored).code == "unchanged"
