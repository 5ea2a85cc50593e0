"""A denial is one line that ends with what to do, whatever text of the pod it quotes."""

import pytest

from ledger.placement_request import Unschedulable
from tests.webhook.support import Webhook, decide, pod, policies
from webhook.admission.denial import END_KEPT, MESSAGE_LIMIT, Denial, Reason
from webhook.decision import deny_unplaced


def test_a_long_message_is_cut_where_it_quotes_and_keeps_what_to_do():
    message = Denial.of(Reason.LABEL, f'container "{"x" * 500}" is wrong: use another').message
    assert len(message) == MESSAGE_LIMIT
    assert message.startswith('container "xxx')
    assert message.endswith('x" is wrong: use another')
    assert message[MESSAGE_LIMIT - END_KEPT - 3 :].startswith("...")
    long_name = pod(metadata={"annotations": {"clearml-injector/container": "n" * 300}})
    assert decide(long_name).message.endswith("use train")


@pytest.mark.parametrize(
    ("quota", "taken", "asked", "expected"),
    [
        ("slices: 7", 1, "0.500", "4 of 7 slices are used, 4 more requested: wait, use a smaller fraction,"),
        ("maxPods: 1", 1, "0.125", "1 of 1 pods are used, 1 more requested: wait until one ends, or"),
        ("slices: 2", 0, "0.500", "0 of 2 slices are used, 4 more requested: use a smaller fraction, or"),
        ("slices: 0", 0, "0.125", " is 0, which allows no labelled pods: use another, or"),
        ("maxPods: 0", 0, "0.125", " is 0, which allows no labelled pods: use another, or"),
    ],
)
def test_what_helps_against_a_quota_depends_on_what_it_counts(quota, taken, asked, expected):
    webhook = Webhook(policies(f"quotas: {{namespaces: {{team: {{{quota}}}}}}}"))
    for number in range(taken):
        assert webhook.decide(pod(), uid=f"taken-{number}").allowed
    decided = webhook.decide(pod(fraction=asked), uid="last")
    assert decided.code == "over-quota"
    assert expected in decided.message
    assert decided.message.endswith("ask the admin for more") or decided.message.endswith("or ask the admin")


def test_a_pod_that_no_node_can_hold_at_this_moment_does_not_read_that_none_ever_could():
    denial = deny_unplaced(Unschedulable("no GPU has 4 free slices", is_for_now=True))
    assert (denial.reason, denial.message) == (Reason.NO_PIECE, "no GPU has 4 free slices")
