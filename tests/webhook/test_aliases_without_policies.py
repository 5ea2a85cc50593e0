"""Pods in other systems' words while a webhook's policy directory is broken from the start."""

import asyncio
import json

import pytest

from ledger.ledger import Ledger
from policies.loading.reload import LivePolicies
from tests.ledger.cluster import gpu_node
from tests.webhook.support import container, pod, review_of
from webhook.placing.placer import LedgerPlacer
from webhook.review import Reviewer
from webhook.rules import Rules

GOOD = b"kind: Policy\nname: default\naliases: {kai: true, hami: true}\n"
MEM = "nvidia.com/gpumem"


@pytest.fixture
def live(tmp_path):
    """The policies of a directory that holds none that are good."""
    (tmp_path / "default.yaml").write_bytes(GOOD.replace(b"aliases", b"alias"))
    return LivePolicies(tmp_path, may_wait=True)


@pytest.fixture
def decide(live):
    """Decide a pod; gives whether it is let in, the reason's code, and whether it was changed."""
    ledger = Ledger()
    ledger.set_node(gpu_node("a"))
    reviewer = Reviewer(lambda: live.current, Rules(), LedgerPlacer(ledger), lambda *_: None)

    def answer(found, **request):
        body = json.dumps(review_of(found, **request)).encode()
        response = json.loads(asyncio.run(reviewer.review(body)))["response"]
        return response["allowed"], response["auditAnnotations"]["reason"], "patch" in response

    return answer


KAI = [{"gpu-fraction": "nonsense"}, {"nvidia.com/container.task.gpu-memory.request": "4Gi"}]


def kai(annotations):
    return pod(fraction=None, metadata={"annotations": annotations})


def hami(field="containers"):
    asks = container("asks", limits={"nvidia.com/gpu": "1", MEM: "4096"})
    found = pod(fraction=None)
    found["spec"][field] = [*found["spec"].get(field, []), asks]
    return found


@pytest.mark.parametrize("found", [*map(kai, KAI), hami(), hami("initContainers")])
def test_without_any_policies_they_are_denied_as_labelled_pods_are(decide, found):
    assert decide(found) == decide(pod()) == (False, "policies-broken", False)


@pytest.mark.parametrize(
    "found",
    [
        pod(fraction=None),
        kai({"gpu-fraction-num-devices": "2"}),
        kai({"other": "gpu-fraction"}),
        pod(fraction=None, containers=[container(limits={"nvidia.com/gpu": "1"})]),
    ],
)
def test_without_any_policies_all_others_are_let_through(decide, found):
    assert decide(found) == (True, "not-labelled", False)


def test_without_any_policies_the_mirror_of_a_static_pod_is_let_through(decide):
    found = kai({"gpu-fraction": "0.5", "kubernetes.io/config.mirror": "digest"})
    node = {"username": "system:node:a", "groups": ["system:nodes"]}
    assert decide(found, userInfo=node) == (True, "not-labelled", False)
    assert decide(found)[1] == "policies-broken"


@pytest.mark.parametrize("found", [kai({"gpu-fraction": "0.5"}), hami()])
def test_the_controllers_last_good_set_decides_them_as_it_decides_labelled_pods(decide, live, found):
    live.adopt({"default.yaml": GOOD})
    assert decide(found) == decide(pod()) == (True, "injected", True)
