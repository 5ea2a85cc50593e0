"""A namespace never gets more than its quota, however often its pods are copied, forged or reviewed again."""

import copy

import pytest

from ledger.from_kubernetes import pod_from_object
from modes.resource_names import ResourceNames
from tests.ledger.cluster import gpu_node
from tests.webhook.support import pod, policies
from tests.webhook.support.gpu_pods import asking_memory, sharing
from tests.webhook.support.gpu_pods import webhook_of as support_webhook

MINE = {"username": "me", "groups": ["system:authenticated"]}


def webhook_of(slices=8):
    policy_set = policies(f"quotas: {{namespaces: {{team: {{slices: {slices}}}}}}}")
    return support_webhook(gpu_node("a", 8), policy_set=policy_set)


def used(webhook):
    waiting = sum(waiting.slices for waiting in webhook.ledger.pending())
    return waiting + webhook.ledger.totals().used


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
    webhook = webhook_of(1)
    first = injected(webhook)
    assert webhook.decide(copied(first, **changed), uid="second", userInfo=user).code == "over-quota"
    assert webhook.decide(first, uid="third", userInfo=MINE).code == "unchanged"


@pytest.mark.parametrize(
    "metadata", [{"name": "task"}, {"name": "", "generateName": "task-", "ownerReferences": [{"uid": "x"}]}]
)
def test_a_legitimate_second_review_changes_nothing_and_reserves_nothing(metadata):
    webhook = webhook_of(1)
    first = injected(webhook, **metadata)
    for dry_run, uid in ((True, "second"), (False, "third"), (False, "third")):
        assert webhook.decide(first, uid=uid, userInfo=MINE, dryRun=dry_run).code == "unchanged"
    assert used(webhook) == 1
    assert webhook.decide(first, uid="fourth", userInfo=MINE).code == "over-quota"


def test_after_a_restart_in_between_the_pod_is_counted_and_still_unchanged():
    injected_before = injected(webhook_of())
    webhook = webhook_of()
    assert webhook.decide(injected_before, uid="second", userInfo=MINE).code == "unchanged"
    assert used(webhook) == 1
    assert webhook.ledger.is_reserved("first-task")


def forged_on(index, injected):
    """A copy of a pod that says that it is on another GPU."""
    made = copied(injected, name=f"on-{index}")
    made["metadata"]["annotations"]["clearml-injector/gpu-index"] = index
    amounts = {f"nvidia.com/gpu-{index}": "1"}
    made["spec"]["containers"][0]["resources"] = {"limits": amounts, "requests": dict(amounts)}
    return made


def test_an_index_that_the_ledger_cannot_count_is_no_placement_and_one_that_no_node_has_counts_in_full():
    webhook = webhook_of(2)
    first = injected(webhook)
    for index in ("1000", "9999"):
        assert webhook.decide(forged_on(index, first), uid=index, userInfo=MINE).code == "gpu-index-set"
    forged = forged_on("999", first)
    assert webhook.decide(forged, uid="second", userInfo=MINE).allowed
    assert used(webhook) == 2
    assert webhook.decide(copied(forged, name="again"), uid="third", userInfo=MINE).code == "over-quota"


ON_TWO = asking_memory("3Gi")
ON_TWO["metadata"]["annotations"] = {"clearml-injector/gpus": "2"}


@pytest.mark.parametrize(
    "made",
    [asking_memory("6Gi"), ON_TWO, sharing("train=4Gi,eval=2Gi", "6Gi")],
    ids=["one GPU", "two GPUs", "two containers"],
)
def test_memory_that_was_asked_for_is_counted_without_the_reserve_before_and_after_its_pod_is_there(made):
    text = "memory: {allowed: true, reserveMiB: 300}\nquotas: {namespaces: {team: {memoryMiB: 6144}}}"
    webhook = support_webhook(gpu_node("a", 8), policy_set=policies(text))
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
