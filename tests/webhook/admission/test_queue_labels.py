"""Labels by which a pod names its ClearML queue must be valid: quotas count by them."""

import pytest

from tests.webhook.support import Webhook, decide, pod, policies
from tests.webhook.support.gpu_pods import JOBS, job_of

LONG = "x" * 2**17
QUEUES = ["clearml-agent-queue-name", "clearml-agent-queue"]


@pytest.mark.parametrize("label", QUEUES)
@pytest.mark.parametrize("value", [LONG, "x" * 64, "two words", "-a", "a-", "a/b", "\u0661", "a\n"])
def test_a_queue_label_that_the_api_server_would_refuse_denies_the_pod_and_counts_nowhere(label, value):
    webhook = Webhook(policies("quotas: {namespaces: {team: {maxPods: 9}}}"))
    decided = webhook.decide(pod(labels={label: value}))
    assert (decided.allowed, decided.code) == (False, "unreadable-object")
    assert label in decided.message
    assert len(decided.message) <= 200
    assert len(webhook.ledger._reservations) == 0
    assert decide(job_of(pod(labels={label: value})), resource=JOBS).code == "unreadable-object"
    assert decide(pod(fraction=None, labels={label: value})).code == "not-labelled"
