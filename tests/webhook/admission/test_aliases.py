"""Pods that ask in the words of KAI, Run:ai or HAMi: ours where the policy says so, else left alone."""

import pytest

from tests.ledger.cluster import gpu_node
from tests.webhook.support import Webhook, container, pod, policies
from tests.webhook.support.gpu_pods import webhook_of

KAI, HAMI = policies("aliases: {kai: true}"), policies("aliases: {hami: true}")
GPU, MEM, PERCENT = "nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage"
MEMORY_LABEL = "clearml-injector/gpu-memory"


def decide(policy_set, found, **request):
    return webhook_of(gpu_node("a", 4), policy_set=policy_set).decide(found, **request)


def kai(**annotations):
    said = {f"gpu-{name.replace('_', '-')}": text for name, text in annotations.items()}
    return pod(fraction=None, metadata={"annotations": said})


def hami(limits, *others, **fields):
    return pod(fraction=None, containers=[container(limits=limits), *others], **fields)


def labels(decided):
    return decided.stored["metadata"]["labels"]


def limits(decided, name="train"):
    return decided.container(name)["resources"]["limits"]


def check_denied(policy_set, found, message):
    """See that a pod is denied where the policy accepts its words, and left alone elsewhere."""
    denied = decide(policy_set, found)
    assert denied.code == "alias-not-allowed"
    assert denied.message.startswith(message)
    assert decide(None, found).code == "not-labelled"


@pytest.mark.parametrize("policy_set", [KAI, HAMI, policies("aliases: {kai: true, hami: true}")])
@pytest.mark.parametrize("found", [pod(fraction=None), hami({GPU: "1"}), kai(fraction_num_devices="2")])
def test_pods_that_ask_in_no_such_words_stay_as_they_are(policy_set, found):
    decided = decide(policy_set, found)
    assert (decided.code, decided.patch) == ("not-labelled", [])


def test_a_forged_marker_of_ours_is_not_believed():
    found = kai(fraction="0.5")
    forged = {"clearml-injector/injected": "default@x", "clearml-injector/slices": "1"}
    found["metadata"]["annotations"] |= forged
    assert decide(KAI, found).annotations["clearml-injector/slices"] == "4"


@pytest.mark.parametrize("node", ["system:node:a", "somebody"])
def test_a_static_pod_that_a_node_shows_is_let_through_as_it_is(node):
    found = kai(fraction="0.5")
    found["metadata"]["annotations"]["kubernetes.io/config.mirror"] = "digest"
    decided = decide(KAI, found, userInfo={"username": node, "groups": ["system:nodes"]})
    assert decided.code == ("injected" if node == "somebody" else "mirror-pod")


@pytest.mark.parametrize("name", ["kai-scheduler", "runai-scheduler"])
def test_a_pod_for_another_systems_scheduler_is_denied_or_given_to_ours(name):
    found = kai(fraction="0.5")
    found["spec"]["schedulerName"] = name
    assert Webhook(KAI).decide(found).message == (
        f"schedulerName {name} does not place pods that ask for shares here: remove it, or ask the admin to"
        " set aliases.schedulerName: remove"
    )
    given = Webhook(policies("aliases: {kai: true, schedulerName: remove}")).decide(found)
    assert given.spec["schedulerName"] == "default-scheduler"
    assert given.outcome.injection.alias.endswith(f"; schedulerName {name} is removed")
    found["spec"]["schedulerName"] = "volcano"
    other = Webhook(KAI).decide(found)
    assert (other.code, other.spec["schedulerName"]) == ("injected", "volcano")
