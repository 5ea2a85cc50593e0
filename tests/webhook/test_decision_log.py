"""What is counted and logged of each decision, and that nothing of the pod is."""

import json

import pytest

from service import log
from service.metrics import new_registry
from tests.webhook.support import Webhook, container, pod
from webhook.decision_log import DecisionLog
from webhook.metrics import WebhookMetrics

CANARY = "c4n4ry-5ecret"


@pytest.fixture
def lines(monkeypatch):
    """The log lines of a test, as the process writes them to a file."""
    written = []
    monkeypatch.setattr("service.log._output.write", lambda said: written.append(log._encode(said)))
    return lambda: [json.loads(line) for line in written]


def observing(found, registry=None, **request):
    webhook, log = Webhook(), DecisionLog(WebhookMetrics(registry or new_registry()))
    webhook.reviewer._observe = lambda *decision: (webhook._observe(*decision), log(*decision))
    return webhook.decide(found, **request)


def test_each_decision_is_counted_once(lines):
    for fraction, decision, reason in (
        ("0.500", "allowed", "injected"),
        ("0.5", "denied", "label-not-allowed"),
        (None, "allowed", "not-labelled"),
    ):
        registry = new_registry()
        observing(pod(fraction=fraction), registry)
        labels = {"decision": decision, "reason": reason}
        assert registry.get_sample_value("fraction_injector_reviews_total", labels) == 1.0
        assert registry.get_sample_value("fraction_injector_review_seconds_count") == 1.0
    assert len(lines()) == 3


def test_the_line_of_a_decision_says_what_was_decided(lines):
    decided = observing(pod())
    (line,) = lines()
    assert line.pop("ms") > 0
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "review",
        "level": "info",
        "logger": "webhook",
        "uid": decided.reply["response"]["uid"],
        "namespace": "team",
        "decision": "allowed",
        "reason": "injected",
        "policy": decided.outcome.policy.marker,
        "queue": None,
        "slices": 4,
        "index": "0",
    }


def canaries():
    """Pods that hold a secret in every text, and end in different ways."""
    secret = container(CANARY, image=CANARY, args=[CANARY], command=[CANARY])
    secret["env"] = [{"name": CANARY, "value": CANARY}, {"name": "LD_PRELOAD", "value": CANARY}]
    metadata = {"name": CANARY, "annotations": {CANARY: CANARY, "kubectl.kubernetes.io/last": CANARY}}
    labels = {CANARY: CANARY, "clearml-agent-queue-name": CANARY, "clearml-agent-queue": CANARY}
    volume = {"name": CANARY, "hostPath": {"path": f"/dev/{CANARY}"}}
    yield pod(containers=[secret], metadata=metadata)
    yield pod(containers=[secret], metadata={"labels": {**labels, "clearml-injector/fraction": "0.500"}})
    yield pod(containers=[secret], metadata=metadata, fraction=CANARY)
    yield pod(containers=[secret], metadata=metadata, volumes=[volume])
    yield pod(containers=[secret, container("b")])
    yield pod(containers=[{**secret, "resources": {"limits": {"nvidia.com/gpu": CANARY}}}])
    yield pod(containers=[{**secret, "resources": {"requests": {"cpu": CANARY}}}])
    yield pod(containers=[{**secret, "env": CANARY}])
    yield pod(containers=[secret], nodeSelector={CANARY: CANARY})
    yield pod(containers=[secret], fraction=None)


@pytest.mark.parametrize("found", list(canaries()))
def test_nothing_of_the_pod_is_logged(lines, found):
    observing(found, name=CANARY, userInfo={"username": CANARY})
    assert len(lines()) == 1
    assert CANARY not in json.dumps(lines())
