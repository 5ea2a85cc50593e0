"""Pods in other systems' words while a webhook's policy directory is broken from the start."""

import pytest

from policies.loading.reload import LivePolicies
from tests.webhook.support import Webhook, container, pod

GOOD = b"kind: Policy\nname: default\naliases: {kai: true, hami: true}\n"
ASKS = container("asks", limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4096"})


@pytest.fixture
def live(tmp_path):
    """The policies of a directory that holds none that are good."""
    (tmp_path / "default.yaml").write_bytes(GOOD.replace(b"aliases", b"alias"))
    return LivePolicies(tmp_path, may_wait=True)


@pytest.fixture
def decide(live):
    """Decide a pod; gives whether it is let in, the reason's code, and whether it was changed."""
    webhook = Webhook(again=False)
    webhook.reviewer._policies = lambda: live.current

    def answer(found, **request):
        decided = webhook.decide(found, **request)
        return decided.allowed, decided.code, bool(decided.patch)

    return answer


def kai(annotations):
    return pod(fraction=None, metadata={"annotations": annotations})


HAMI = pod(fraction=None, containers=[container(), ASKS])
IN_AN_INIT_CONTAINER = pod(fraction=None, initContainers=[ASKS])
KAI = [kai({"gpu-fraction": "nonsense"}), kai({"nvidia.com/container.task.gpu-memory.request": "4Gi"})]


@pytest.mark.parametrize("found", [*KAI, HAMI, IN_AN_INIT_CONTAINER])
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


@pytest.mark.parametrize("found", [kai({"gpu-fraction": "0.5"}), HAMI])
def test_the_controllers_last_good_set_decides_them_as_it_decides_labelled_pods(decide, live, found):
    live.adopt({"default.yaml": GOOD})
    assert decide(found) == decide(pod()) == (True, "injected", True)
