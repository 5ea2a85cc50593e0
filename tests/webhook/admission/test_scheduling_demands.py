"""How much a pod may demand of its node is bounded."""

import pytest

from tests.webhook.support import Webhook, decide, pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def required(*terms):
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


def host(*names):
    return {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": list(names)}]}


@pytest.mark.parametrize(
    ("demands", "what"),
    [
        (
            required(*[host(f"n{i}") for i in range(101)]),
            "101 expressions in required node affinity, more than 100",
        ),
        (required(host(*map(str, range(1001)))), "1001 values in required node affinity, more than 1000"),
        ({"tolerations": [{"key": f"k{i}"} for i in range(101)]}, "101 tolerations, more than 100"),
        ({"nodeSelector": {f"k{i}": "" for i in range(101)}}, "101 nodeSelector labels, more than 100"),
    ],
)
def test_more_demands_than_can_be_put_to_every_node_are_denied(demands, what):
    decided = decide(pod(**demands))
    assert decided.code == "too-many-demands"
    assert decided.message == f"the pod has {what}: label the nodes, and require that label"


def expression(**fields):
    return {"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"], **fields}]}


LONG = "x" * 2**17


@pytest.mark.parametrize(
    ("demands", "what"),
    [
        ({"nodeSelector": {LONG: "v"}}, "a nodeSelector key"),
        ({"nodeSelector": {"k": "x" * 64}}, "a nodeSelector value"),
        ({"nodeName": "x" * 254}, "spec.nodeName"),
        ({"tolerations": [{"key": "x" * 318}]}, "a toleration's key"),
        ({"tolerations": [{"key": "k", "value": "x" * 64}]}, "a toleration's value"),
        ({"tolerations": [{"operator": LONG}]}, "a toleration's operator"),
        ({"tolerations": [{"effect": LONG}]}, "a toleration's effect"),
        (required(expression(key="x" * 318)), "a key in required node affinity"),
        (required(expression(operator=LONG)), "an operator in required node affinity"),
        (required(expression(values=["v", "x" * 64])), "a value in required node affinity"),
        (
            required({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["x" * 254]}]}),
            "a value in required node affinity",
        ),
    ],
)
def test_a_demand_longer_than_kubernetes_allows_is_denied(demands, what):
    decided = decide(pod(**demands))
    assert decided.code == "too-many-demands"
    assert decided.message.startswith(f"{what} of the pod has ")
    assert decided.message.endswith("shorten it")
    assert len(decided.message) <= 200


@pytest.mark.parametrize(
    "demands",
    [
        {"nodeSelector": {"x" * 253 + "/" + "x" * 63: "x" * 63}},
        {"nodeName": "x" * 253},
        {"tolerations": [{"key": "x" * 317, "value": "x" * 63, "effect": "PreferNoSchedule"}]},
        required(expression(key="x" * 317, values=["x" * 63])),
    ],
)
def test_a_demand_as_long_as_kubernetes_allows_is_put_to_the_nodes(demands):
    assert decide(pod(**demands)).code in {"injected", "no-matching-node"}


def test_empty_terms_are_demands_too():
    terms = [expression(operator="Exists", values=None), *[{} for _ in range(100)]]
    decided = decide(pod(**required(*terms)))
    assert decided.code == "too-many-demands"
    assert "101 terms in required node affinity" in decided.message


def test_as_many_demands_as_are_allowed_are_not_too_many_with_ours_added():
    webhook = Webhook()
    names = [node.name for node in webhook.ledger.view().nodes]
    first = webhook.decide(pod(**required(*[host(*names) for _ in range(100)])))
    assert first.code == "injected"
    assert webhook.decide(first.stored).code == "unchanged"
