"""What the API server relies on: the reply's shape, the closed list of reasons, metrics and log lines."""

import base64
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from ledger.ledger import Ledger
from service import log
from service.metrics import new_registry, render
from tests.webhook.support import FIXTURES, Webhook, container, decide, fixture_review, pod, review_of
from webhook.admission.denial import ADMITTED, Denial, Reason
from webhook.decision_log import DecisionLog
from webhook.metrics import WebhookMetrics

REASONS = Path(__file__).parent.parent.parent / "docs" / "reference" / "reasons.md"
REVIEWS = sorted(path.name.removesuffix(".json") for path in (FIXTURES / "admission-reviews").iterdir())
CANARY = "c4n4ry-5ecret"


@pytest.mark.parametrize("name", REVIEWS)
def test_every_reply_is_what_the_api_server_takes(name):
    review = fixture_review(name)
    reply = Webhook().send(review).reply
    assert set(reply) == {"apiVersion", "kind", "response"}
    assert (reply["apiVersion"], reply["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response = reply["response"]
    assert response["uid"] == review["request"]["uid"]
    if response["allowed"]:
        assert set(response) in (
            {"uid", "allowed", "auditAnnotations"},
            {"uid", "allowed", "auditAnnotations", "patch", "patchType"},
        )
        if "patch" in response:
            assert response["patchType"] == "JSONPatch"
            operations = json.loads(base64.b64decode(response["patch"], validate=True))
            assert operations
            assert {operation["op"] for operation in operations} <= {"add", "remove"}
    else:
        assert set(response) == {"uid", "allowed", "auditAnnotations", "status"}
        status = response["status"]
        assert (status["code"], status["reason"], status["status"]) == (403, "Forbidden", "Failure")
        assert 0 < len(status["message"]) <= 200
        assert status["message"].isprintable()


def test_the_version_of_the_review_is_echoed():
    review = review_of(pod()) | {"apiVersion": "admission.k8s.io/v1beta1"}
    assert Webhook().send(review).reply["apiVersion"] == "admission.k8s.io/v1beta1"


@pytest.mark.parametrize(
    ("found", "audit"),
    [
        (pod(), {"decision": "allowed", "reason": "injected"}),
        (pod(fraction=None), {"decision": "allowed", "reason": "not-labelled"}),
        (pod(fraction="0.5"), {"decision": "denied", "reason": "label-not-allowed"}),
    ],
)
def test_audit_annotations_carry_decision_and_reason(found, audit):
    assert decide(found).reply["response"]["auditAnnotations"] == audit


@given(st.text(max_size=500))
def test_a_message_is_one_printable_line_of_at_most_200_characters(text):
    message = Denial.of(Reason.LABEL, text).message
    assert len(message) <= 200
    assert message.isprintable()
    if text.isprintable() and len(text) <= 200:
        assert message == text


@pytest.mark.parametrize("name", ["x" * 300, "a\nb", "\u2028", "\x1b[31m"])
def test_names_in_messages_cannot_break_the_line(name):
    decided = decide(pod(containers=[container(name), container("b")]))
    assert decided.message.isprintable()
    assert len(decided.message) <= 200


def test_the_documented_reasons_are_exactly_those_of_the_code():
    allowed, _, denied = REASONS.read_text().partition("## Denied")
    rows = re.compile(r"^\| `([a-z-]+)` \| (.+) \| (.+) \|$", re.MULTILINE)
    assert [code for code, *_ in rows.findall(allowed)] == [
        reason.value for reason in Reason if reason in ADMITTED
    ]
    assert sorted(code for code, *_ in rows.findall(denied)) == sorted(
        reason.value for reason in Reason if reason not in ADMITTED
    )


class Observed:
    """A decision log whose metrics and lines can be read."""

    def __init__(self):
        self.registry = new_registry()
        self.log = DecisionLog(WebhookMetrics(self.registry))

    def samples(self):
        families = text_string_to_metric_families(render(self.registry).decode())
        return {
            (sample.name, *sorted(sample.labels.values())): sample.value
            for family in families
            if family.name.startswith("fraction_injector_")
            for sample in family.samples
        }


@pytest.fixture
def lines(monkeypatch):
    """The log lines of a test, as the process writes them to a file."""
    written = []
    monkeypatch.setattr("service.log._output.write", lambda said: written.append(log._encode(said)))
    return lambda: [json.loads(line) for line in written]


def test_every_series_is_at_zero_from_the_start():
    samples = Observed().samples()
    reviews = {key: value for key, value in samples.items() if key[0] == "fraction_injector_reviews_total"}
    assert reviews == {
        (
            "fraction_injector_reviews_total",
            *sorted(["allowed" if reason in ADMITTED else "denied", reason.value]),
        ): 0.0
        for reason in Reason
    }
    counters = {key for key in samples if key[0].endswith("_total")} - set(reviews)
    assert {key[0] for key in counters} == {
        "fraction_injector_unreadable_requests_total",
        "fraction_injector_degraded_placements_total",
        "fraction_injector_worker_reviews_total",
        "fraction_injector_worker_cpu_seconds_total",
    }
    assert all(samples[key] == 0.0 for key in counters)
    assert {samples[key] for key in counters} == {0.0}
    assert samples["fraction_injector_review_seconds_count",] == 0.0


def observing(observed, found, **request):
    webhook = Webhook()
    webhook.reviewer._observe = lambda *decision: (webhook._observe(*decision), observed.log(*decision))
    return webhook.decide(found, **request)


def test_each_decision_is_counted_once(lines):
    observed = Observed()
    for found in (pod(), pod(), pod(fraction="0.5"), pod(fraction=None)):
        observing(observed, found)
    samples = observed.samples()
    assert samples["fraction_injector_reviews_total", "allowed", "injected"] == 2.0
    assert samples["fraction_injector_reviews_total", "denied", "label-not-allowed"] == 1.0
    assert samples["fraction_injector_reviews_total", "allowed", "not-labelled"] == 1.0
    assert samples["fraction_injector_review_seconds_count",] == 4.0
    assert len(lines()) == 4


def test_the_line_of_a_decision_says_what_was_decided(lines):
    decided = observing(Observed(), pod())
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
    observing(Observed(), found, name=CANARY, userInfo={"username": CANARY})
    assert len(lines()) == 1
    assert CANARY not in json.dumps(lines())


def test_an_internal_error_is_logged_by_kind_and_place_alone(lines, monkeypatch):
    def broken(*_args, **_kwargs):
        raise KeyError(CANARY)

    monkeypatch.setattr(Ledger, "place", broken)
    observing(Observed(), pod())
    (line,) = lines()
    assert (line["level"], line["decision"], line["reason"]) == ("error", "denied", "internal-error")
    assert line["error"].startswith("KeyError at test_contract.py:")
    assert CANARY not in json.dumps(line)
