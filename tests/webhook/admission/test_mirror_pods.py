"""A mirror pod only shows in the API what a kubelet runs already: it is let through as it is."""

import pytest

from tests.webhook.support import Webhook, container, decide, pod

NODE = {"username": "system:node:gpu-1", "groups": ["system:nodes", "system:authenticated"]}
AMOUNT = [container(limits={"nvidia.com/gpu": "3"})]


def mirror(**fields):
    return pod(metadata={"annotations": {"kubernetes.io/config.mirror": "0123456789abcdef"}}, **fields)


@pytest.mark.parametrize(
    "fields", [{}, {"containers": AMOUNT}, {"hostPID": True, "nodeName": "gpu-1"}, {"fraction": "nonsense"}]
)
def test_a_labelled_mirror_pod_of_a_node_is_never_touched_and_holds_no_reservation(fields):
    webhook = Webhook()
    decided = webhook.decide(mirror(**fields), userInfo=NODE)
    assert (decided.allowed, decided.code, decided.patch) == (True, "mirror-pod", [])
    assert webhook.ledger.totals().used == 0


@pytest.mark.parametrize(
    "user",
    [
        {"username": "admin", "groups": ["system:masters"]},
        {"username": "system:node:gpu-1", "groups": ["system:authenticated"]},
        {"username": "system:node:gpu-1"},
        {"username": "system:node:", "groups": ["system:nodes"]},
        {"username": "alice:system:node:gpu-1", "groups": ["system:nodes"]},
        {"username": "system:node:gpu-1", "groups": [5]},
        [],
        None,
    ],
)
def test_a_user_that_is_no_node_cannot_claim_it(user):
    assert decide(mirror(containers=AMOUNT), userInfo=user).code == "gpu-amount"


def test_another_pod_of_a_node_is_decided_as_any():
    found = pod(metadata={"annotations": {"kubernetes.io/config.source": "file"}})
    assert decide(found, userInfo=NODE).code == "injected"
