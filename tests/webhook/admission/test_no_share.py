"""Key `share: none` of queues and policies: labelled pods, as ClearML's pipeline controllers, get no GPU."""

import pytest

from tests.webhook.support import LABEL, container, decide, pod, policies

QUEUE = "clearml-agent-queue-name"
NONE = policies(queues="kind: Queues\nqueues:\n  services: {share: none}\n")
NOTE = "clearml-injector/no-share"


def of_queue(queue="services", labels=None, **fields):
    return pod(labels={QUEUE: queue, **(labels or {})}, **fields)


def test_the_pod_loses_its_label_and_its_gpus_and_sees_none():
    asks = {"nvidia.com/gpu": "1", "clear.ml/fraction-1": "500m", "cpu": "2"}
    found = of_queue(containers=[container(limits=asks)])
    decided = decide(found, policy_set=NONE)
    assert (decided.allowed, decided.code) == (True, "no-share")
    assert decided.stored["metadata"]["labels"] == {QUEUE: "services"}
    assert decided.annotations == {NOTE: "services"}
    assert decided.container()["resources"] == {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}
    assert decided.env() == [("NVIDIA_VISIBLE_DEVICES", "void")]
    assert set(decided.spec) == set(found["spec"])


@pytest.mark.parametrize("label", [{LABEL: "nonsense"}, {"clearml-injector/gpu-memory": "4Gi"}])
def test_what_the_label_asks_for_does_not_matter(label):
    decided = decide(of_queue(fraction=None, labels=label), policy_set=NONE)
    assert (decided.code, decided.stored["metadata"]["labels"]) == ("no-share", {QUEUE: "services"})


def test_what_other_systems_share_is_left_to_them_as_of_any_unlabelled_pod():
    asks = {"nvidia.com/mig-1g.10gb": "1", "nvidia.com/gpu-3": "4"}
    decided = decide(of_queue(containers=[container(limits=asks)]), policy_set=NONE)
    assert decided.container()["resources"]["limits"] == asks


def test_a_pod_that_is_too_large_is_denied_as_any_labelled_one():
    found = of_queue(containers=[container(f"c{number}") for number in range(201)])
    assert decide(found, policy_set=NONE).code == "pod-too-large"


def test_a_policy_may_give_none_and_a_queue_of_its_namespaces_the_share_again():
    text = "kind: Queues\nqueues:\n  gpu: {share: label, namespaces: [default]}\n"
    under = policies("share: none", queues=text)
    decided = decide(pod(), policy_set=under)
    assert (decided.code, decided.annotations) == ("no-share", {NOTE: "default"})
    assert decide(of_queue("gpu"), policy_set=under, namespace="default").code == "injected"
