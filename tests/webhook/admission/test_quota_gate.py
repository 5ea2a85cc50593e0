"""The scheduling gate: added to pods that must wait, once, and refused where nobody would remove it."""

import pytest

from kube.names import QUOTA_GATE
from ledger.placement_request import Quota
from tests.ledger.cluster import gpu_node
from tests.webhook.support import pod, policies
from tests.webhook.support.gpu_pods import webhook_of as support_webhook

OURS = {"name": QUOTA_GATE}
ME = {"username": "me", "groups": ["system:authenticated"]}


def webhook_of(keys="whenOverQuota: wait"):
    quotas = f"quotas: {{namespaces: {{team: {{slices: 8}}}}, {keys}}}"
    found = support_webhook(gpu_node("a", 8), policy_set=policies(quotas))
    found.ledger.line.state = "open"
    return found


def decide(webhook, name="task", user=ME, *, dry_run=False, **spec):
    """Decide a pod of half a GPU."""
    return webhook.decide(pod(metadata={"name": name}, **spec), uid=name, userInfo=user, dryRun=dry_run)


def gates(decided):
    return decided.spec.get("schedulingGates", [])


def filled():
    webhook = webhook_of()
    for name in ("first", "second"):
        assert gates(decide(webhook, name)) == []
    return webhook


def test_a_pod_over_its_quota_gets_its_share_and_our_gate_once():
    """`Webhook` reviews it again, which changes nothing, and counts it nowhere."""
    webhook = filled()
    decided = decide(webhook)
    assert gates(decided) == [OURS]
    assert decided.annotations["clearml-injector/slices"] == "4"
    assert "preferredDuringSchedulingIgnoredDuringExecution" not in str(decided.spec["affinity"])
    assert webhook.ledger.pending_slices() == 4


def test_a_second_review_adds_no_gate_to_a_pod_that_had_room_at_the_first():
    webhook = webhook_of()
    stored = decide(webhook).stored
    webhook.ledger.line.state = "settling"
    assert webhook.decide(stored, uid="task-2", userInfo=ME).code == "unchanged"


def copied(webhook):
    """A pod that was let go, and whose copy another user creates."""
    stored = decide(webhook, "other").stored
    stored["spec"]["schedulingGates"] = []
    return stored


@pytest.mark.parametrize("state", ["settling", "open"])
def test_a_copy_of_an_injected_pod_does_not_pass_those_that_wait(state):
    webhook = webhook_of()
    stored = copied(webhook)
    webhook.ledger.line.state = state
    if state == "open":
        webhook.ledger.line.close(Quota("namespace", "team", slices=8))
    assert gates(webhook.decide(stored, uid="other-2", userInfo={"username": "another"})) == [OURS]


def test_a_copy_that_names_its_node_is_denied_over_the_quota():
    webhook = filled()
    copy_of_it = copied(webhook)
    copy_of_it["spec"]["nodeName"] = "a"
    decided = webhook.decide(copy_of_it, uid="other-2", userInfo={"username": "another"})
    assert decided.code == "over-quota"


def test_a_dry_run_shows_the_gate_and_keeps_nothing():
    webhook = filled()
    assert gates(decide(webhook, dry_run=True)) == [OURS]
    assert webhook.ledger.pending_slices() == 0


def test_an_author_may_add_the_gate_where_the_policy_lets_pods_wait():
    webhook = webhook_of()
    assert gates(decide(webhook, schedulingGates=[OURS])) == [OURS]
    assert webhook.ledger.pending_slices() == 4, "it waits until the controller lets it go"


def test_elsewhere_the_gate_is_refused_since_nobody_would_remove_it():
    decided = decide(webhook_of("whenOverQuota: deny"), schedulingGates=[OURS])
    assert decided.code == "quota-gate"
    assert decided.message.endswith("policy default lets none wait: remove it")
