"""A namespace never gets more than its quota, however often its pods are copied, forged or reviewed again."""

import copy

import pytest

from ledger.from_kubernetes import pod_from_object
from ledger.ledger import Ledger
from modes.resource_names import ResourceNames
from tests.ledger.cluster import gpu_node
from tests.webhook.support import Webhook, container, pod, policies
from tests.webhook.support.gpu_pods import asking_memory, sharing

EIGHT = policies("quotas: {namespaces: {team: {slices: 8}}}")
MINE = {"username": "me", "groups": ["system:authenticated"]}


def webhook_of(policy_set=EIGHT):
    ledger = Ledger()
    ledger.set_node(gpu_node("a", 8))
    return Webhook(policy_set, ledger)


def used(webhook):
    return sum(gpu.used for node in webhook.ledger.view().nodes for gpu in node.gpus) + sum(
        waiting.slices for waiting in webhook.ledger.pending()
    )


def injected(webhook, name="task", **metadata):
    """A pod as its first review left it."""
    found = pod(fraction="0.125")
    found["metadata"] |= {"name": name, **metadata}
    return webhook.decide(found, uid=f"first-{name}", userInfo=MINE).stored


def copied(found, **metadata):
    made = copy.deepcopy(found)
    made["metadata"] |= metadata
    return made


@pytest.mark.parametrize(
    ("changed", "user"),
    [
        ({"name": "other"}, MINE),
        ({"name": None, "generateName": "task"}, MINE),
        ({"ownerReferences": [{"uid": "x"}]}, MINE),
        ({}, {"username": "other"}),
        ({}, {}),
    ],
)
def test_a_live_reservation_matches_only_its_own_pod(changed, user):
    webhook = webhook_of(policies("quotas: {namespaces: {team: {slices: 1}}}"))
    first = injected(webhook)
    assert webhook.decide(copied(first, **changed), uid="second", userInfo=user).code == "over-quota"
    again = webhook.decide(first, uid="third", userInfo=MINE)
    assert (again.code, again.patch) == ("unchanged", [])


@pytest.mark.parametrize(
    "metadata", [{"name": "task"}, {"name": "", "generateName": "task-", "ownerReferences": [{"uid": "x"}]}]
)
def test_a_legitimate_second_review_changes_nothing_and_reserves_nothing(metadata):
    webhook = webhook_of(policies("quotas: {namespaces: {team: {slices: 1}}}"))
    first = injected(webhook, **metadata)
    for dry_run, uid in ((True, "second"), (False, "third"), (False, "third")):
        again = webhook.decide(first, uid=uid, userInfo=MINE, dryRun=dry_run)
        assert (again.code, again.patch) == ("unchanged", [])
    assert used(webhook) == 1
    assert webhook.decide(first, uid="fourth", userInfo=MINE).code == "over-quota"


def test_after_a_restart_in_between_the_pod_is_counted_and_still_unchanged():
    injected_before = injected(webhook_of())
    webhook = webhook_of()
    again = webhook.decide(injected_before, uid="second", userInfo=MINE)
    assert (again.code, again.patch) == ("unchanged", [])
    assert used(webhook) == 1
    assert webhook.ledger.is_reserved("first-task")


@pytest.mark.parametrize("index", ["1000", "9999"])
def test_an_index_that_the_ledger_cannot_count_is_no_placement(index):
    webhook = webhook_of()
    forged = copied(injected(webhook), name="forged")
    forged["metadata"]["annotations"]["clearml-injector/gpu-index"] = index
    limits = {f"nvidia.com/gpu-{index}": "1"}
    forged["spec"]["containers"] = [container(limits=limits)]
    assert webhook.decide(forged, uid="second", userInfo=MINE).code == "gpu-index-set"


def test_an_index_that_no_node_has_counts_in_full():
    webhook = webhook_of(policies("quotas: {namespaces: {team: {slices: 2}}}"))
    first = injected(webhook)
    forged = copied(first, name="forged")
    forged["metadata"]["annotations"]["clearml-injector/gpu-index"] = "999"
    amounts = {"nvidia.com/gpu-999": "1"}
    forged["spec"]["containers"][0]["resources"] = {"limits": amounts, "requests": amounts}
    assert webhook.decide(forged, uid="second", userInfo=MINE).allowed
    assert used(webhook) == 2
    again = copied(forged, name="again")
    assert webhook.decide(again, uid="third", userInfo=MINE).code == "over-quota"


ON_TWO = asking_memory("3Gi")
ON_TWO["metadata"]["annotations"] = {"clearml-injector/gpus": "2"}


@pytest.mark.parametrize(
    "made",
    [asking_memory("6Gi"), ON_TWO, sharing("train=4Gi,eval=2Gi", "6Gi")],
    ids=["one GPU", "two GPUs", "two containers"],
)
def test_memory_that_was_asked_for_is_counted_without_the_reserve_before_and_after_its_pod_is_there(made):
    quota = "quotas: {namespaces: {team: {memoryMiB: 6144}}}"
    webhook = webhook_of(policies(f"memory: {{allowed: true, reserveMiB: 300}}\n{quota}"))
    decided = webhook.decide(made)
    assert decided.allowed
    [rule] = webhook.policies.resolve("team", None, None).quotas
    assert webhook.ledger.used_of(rule.quota).memory.mib == 6144
    stored = decided.stored
    stored["metadata"]["namespace"] = "team"
    webhook.ledger.set_pod(pod_from_object(stored, ResourceNames()))
    assert webhook.ledger.used_of(rule.quota).memory.mib == 6144
    more = webhook.decide(asking_memory("1Mi"), uid="more")
    assert "6144 of 6144 MiB of GPU memory are used, 1 more requested" in more.message
