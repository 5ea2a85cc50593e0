"""The scheduling gate: added to pods that must wait, once, and refused where nobody would remove it."""

import copy

import pytest

from kube.names import QUOTA_GATE
from ledger.ledger import Ledger
from ledger.placement_request import Quota
from tests.ledger.cluster import gpu_node
from tests.webhook.support import Webhook, pod, policies

OURS = {"name": QUOTA_GATE}
ME = {"username": "me", "groups": ["system:authenticated"]}


def webhook_of(keys="whenOverQuota: wait", more="", *, state="open"):
    policy_set = policies(f"quotas: {{namespaces: {{team: {{slices: 8}}}}, {keys}}}\n{more}")
    ledger = Ledger()
    ledger.line.state = state
    ledger.set_node(gpu_node("a", 8))
    return Webhook(policy_set, ledger)


def half(name="task", **spec):
    made = pod(fraction="0.500")
    made["metadata"]["name"] = name
    made["spec"] |= spec
    return made


def gates(decided):
    return decided.stored["spec"].get("schedulingGates", [])


def filled(**options):
    webhook = webhook_of(**options)
    for number in range(2):
        decided = webhook.decide(half(f"runs-{number}"), uid=f"runs-{number}", userInfo=ME)
        assert (decided.allowed, gates(decided)) == (True, [])
    return webhook


def test_a_pod_over_its_quota_gets_its_share_and_our_gate():
    webhook = filled()
    decided = webhook.decide(half(), uid="u", userInfo=ME)
    assert gates(decided) == [OURS]
    assert decided.annotations["clearml-injector/slices"] == "4"
    assert "preferredDuringSchedulingIgnoredDuringExecution" not in str(decided.stored["spec"]["affinity"])
    assert webhook.ledger.pending_slices() == 4


def test_a_second_review_changes_nothing_and_counts_the_pod_nowhere():
    webhook = filled()
    stored = webhook.decide(half(), uid="u", userInfo=ME).stored
    again = webhook.decide(copy.deepcopy(stored), uid="u-2", userInfo=ME)
    assert (again.allowed, again.code, again.stored) == (True, "unchanged", stored)
    assert webhook.ledger.pending_slices() == 4


def test_a_second_review_adds_no_gate_to_a_pod_that_had_room_at_the_first():
    webhook = webhook_of()
    stored = webhook.decide(half(), uid="u", userInfo=ME).stored
    webhook.ledger.line.state = "settling"
    again = webhook.decide(stored, uid="u-2", userInfo=ME)
    assert (again.allowed, again.code) == (True, "unchanged")


def copied(webhook):
    """A pod that was let go, and whose copy another user creates."""
    stored = webhook.decide(half("other"), uid="other", userInfo=ME).stored
    stored["spec"]["schedulingGates"] = []
    return stored


@pytest.mark.parametrize("state", ["settling", "open"])
def test_a_copy_of_an_injected_pod_does_not_pass_those_that_wait(state):
    webhook = webhook_of()
    stored = copied(webhook)
    webhook.ledger.line.state = state
    if state == "open":
        webhook.ledger.line.close(Quota("namespace", "team", slices=8))
    again = webhook.decide(stored, uid="u-2", userInfo={"username": "another"})
    assert (again.allowed, gates(again)) == (True, [OURS])


def test_a_copy_that_names_its_node_is_denied_over_the_quota():
    webhook = filled()
    copy_of_it = copied(webhook)
    copy_of_it["spec"]["nodeName"] = "a"
    assert webhook.decide(copy_of_it, uid="u-2", userInfo={"username": "another"}).code == "over-quota"


def test_a_dry_run_shows_the_gate_and_keeps_nothing():
    webhook = filled()
    decided = webhook.decide(half(), uid="u", userInfo=ME, dryRun=True)
    assert gates(decided) == [OURS]
    assert webhook.ledger.pending_slices() == 0


def test_an_author_may_add_the_gate_where_the_policy_lets_pods_wait():
    webhook = webhook_of()
    decided = webhook.decide(half(schedulingGates=[OURS]), uid="u", userInfo=ME)
    assert gates(decided) == [OURS]
    assert webhook.ledger.pending_slices() == 4, "it waits until the controller lets it go"


def test_elsewhere_the_gate_is_refused_since_nobody_would_remove_it():
    decided = webhook_of(keys="whenOverQuota: deny").decide(
        half(schedulingGates=[OURS]), uid="u", userInfo=ME
    )
    assert (decided.allowed, decided.code) == (False, "quota-gate")
    assert decided.message.endswith("policy default lets none wait: remove it")
