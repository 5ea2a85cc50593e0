"""Labels by which a pod names its ClearML queue must be valid: quotas count by them."""

import pytest

from tests.webhook.support import LABEL, Webhook, decide, pod, policies

LONG = "x" * 2**17


QUEUES = ["clearml-agent-queue-name", "clearml-agent-queue"]


JOB = {"group": "batch", "version": "v1", "resource": "jobs"}


BAD_LABEL_VALUES = [LONG, "x" * 64, "two words", "-a", "a-", "a/b", "\u0661", "a\n"]


@pytest.mark.parametrize("label", QUEUES)
@pytest.mark.parametrize("value", BAD_LABEL_VALUES)
def test_a_queue_label_that_the_api_server_would_refuse_denies_the_pod_and_counts_nowhere(label, value):
    webhook = Webhook(policies("quotas: {namespaces: {team: {maxPods: 9}}}"))
    decided = webhook.decide(pod(labels={label: value}))
    assert (decided.allowed, decided.code) == (False, "unreadable-object")
    assert label in decided.message
    assert len(decided.message) <= 200
    assert len(webhook.ledger._reservations) == 0


@pytest.mark.parametrize("label", QUEUES)
def test_queue_labels_of_jobs_and_of_unlabelled_pods(label):
    job = {"metadata": {"labels": {LABEL: "0.500", label: LONG}}, "spec": None}
    assert decide(job, resource=JOB).code == "unreadable-object"
    assert decide(pod(fraction=None, labels={label: LONG})).code == "not-labelled"
