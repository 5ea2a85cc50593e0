"""Key `share: none` of queues and policies: labelled pods, as ClearML's pipeline controllers, get no GPU."""

import pytest

from policies.model.problems import PolicyError
from tests.webhook.support import LABEL, container, decide, pod, policies
from tests.webhook.support.gpu_pods import JOBS, job_of

QUEUE = "clearml-agent-queue-name"
NONE = policies(queues="kind: Queues\nqueues:\n  services: {share: none}\n")
NOTE = "clearml-injector/no-share"


def of_queue(queue="services", **fields):
    labels = fields.pop("labels", {})
    return pod(labels={QUEUE: queue, **labels}, **fields)


def test_the_pod_loses_its_label_and_its_gpus_and_sees_none():
    asks = {"nvidia.com/gpu": "1", "clear.ml/fraction-1": "500m", "cpu": "2"}
    found = of_queue(containers=[container(resources={"limits": dict(asks), "requests": dict(asks)})])
    decided = decide(found, policy_set=NONE)
    assert (decided.allowed, decided.code) == (True, "no-share")
    assert decided.stored["metadata"]["labels"] == {QUEUE: "services"}
    assert decided.annotations == {NOTE: "services"}
    assert decided.container()["resources"] == {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}
    assert decided.env() == [("NVIDIA_VISIBLE_DEVICES", "void")]
    assert set(decided.spec) == set(found["spec"])


def test_every_container_sees_no_gpu_whatever_it_says_itself():
    every = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}, {"name": "MINE", "value": "1"}]
    found = of_queue(
        containers=[container("a", env=every), container("b")], initContainers=[container("first")]
    )
    decided = decide(found, policy_set=NONE)
    assert decided.env("a") == [("MINE", "1"), ("NVIDIA_VISIBLE_DEVICES", "void")]
    assert decided.env("b") == [("NVIDIA_VISIBLE_DEVICES", "void")]
    [first] = decided.spec["initContainers"]
    assert first["env"] == [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]


@pytest.mark.parametrize("label", [{LABEL: "nonsense"}, {"clearml-injector/gpu-memory": "4Gi"}])
def test_what_the_label_asks_for_does_not_matter(label):
    decided = decide(of_queue(fraction=None, labels=label), policy_set=NONE)
    assert (decided.code, decided.stored["metadata"]["labels"]) == ("no-share", {QUEUE: "services"})


def test_a_stored_pod_is_unlabelled_and_never_changed_again():
    stored = decide(of_queue(), policy_set=NONE).stored
    again = decide(stored, policy_set=NONE)
    assert (again.code, again.patch) == ("not-labelled", [])


def test_what_other_systems_share_is_left_to_them_as_of_any_unlabelled_pod():
    asks = {"nvidia.com/mig-1g.10gb": "1", "nvidia.com/gpu-3": "4"}
    found = of_queue(containers=[container(resources={"limits": dict(asks)})])
    assert decide(found, policy_set=NONE).container()["resources"]["limits"] == asks


def test_pods_of_other_queues_get_their_share():
    assert decide(of_queue("default"), policy_set=NONE).code == "injected"
    assert decide(pod(), policy_set=NONE).code == "injected"


def test_the_entry_holds_in_its_namespaces_only():
    text = "kind: Queues\nqueues:\n  services: {share: none, namespaces: [clearml]}\n"
    there = of_queue(metadata={"namespace": "clearml"})
    assert decide(there, policy_set=policies(queues=text), namespace="clearml").code == "no-share"
    assert decide(of_queue(), policy_set=policies(queues=text), namespace="default").code == "injected"


def test_gpus_are_not_hidden_where_the_policy_does_not_hide_them():
    text = "kind: Queues\nqueues:\n  services: {share: none}\n"
    decided = decide(of_queue(), policy_set=policies("hideGpusFromOthers: false", queues=text))
    assert "env" not in decided.container()


def test_a_pod_that_is_too_large_is_denied_as_any_labelled_one():
    found = of_queue(containers=[container(f"c{number}") for number in range(201)])
    assert decide(found, policy_set=NONE).code == "pod-too-large"


def test_a_pod_that_cannot_be_read_is_denied():
    assert decide(of_queue(containers=[{"name": 1}]), policy_set=NONE).code == "unreadable-object"


def test_a_job_of_such_a_queue_is_let_in_and_its_pods_lose_their_label_later():
    template = of_queue()
    decided = decide(job_of(template), policy_set=NONE, resource=JOBS)
    assert decided.allowed


def test_a_policy_may_give_none_and_a_queue_of_its_namespaces_the_share_again():
    text = "kind: Queues\nqueues:\n  gpu: {share: label, namespaces: [default]}\n"
    under = policies("share: none", queues=text)
    decided = decide(pod(), policy_set=under)
    assert (decided.code, decided.annotations) == ("no-share", {NOTE: "default"})
    assert decide(of_queue("gpu"), policy_set=under, namespace="default").code == "injected"


def test_an_entry_for_all_namespaces_gives_no_share_where_the_policy_gives_none():
    text = "kind: Queues\nqueues:\n  gpu: {share: label}\n"
    with pytest.raises(PolicyError, match=r"queues.gpu.share: relaxes policy default \(share label instead"):
        policies("share: none", queues=text)
