"""How reviews are answered before any rule: operations, kinds, and objects of wrong types."""

import json
from pathlib import Path

import pytest

from ledger.ledger import Ledger
from tests.webhook.support import LABEL, UID, Webhook, container, decide, pod, review_of
from webhook.admission_review import UnreadableReviewError, decode

LABELLED = {"labels": {LABEL: "0.500"}}
NAMELESS = {"containers": [{"image": "x"}]}


@pytest.mark.parametrize(
    "request_",
    [
        *({"operation": operation} for operation in ("UPDATE", "DELETE", "CONNECT", "")),
        *({"subResource": name} for name in ("status", "ephemeralcontainers", "binding", "eviction")),
    ],
)
def test_only_the_creation_of_a_pod_itself_is_handled(request_):
    decided = decide(pod(fraction="nonsense"), **request_)
    assert (decided.allowed, decided.code, decided.patch) == (True, "not-handled", [])


@pytest.mark.parametrize(
    "found",
    [
        None,
        [],
        {"metadata": None},
        {"metadata": {"labels": None}},
        {"metadata": {"labels": {"fraction": "0.500"}}},
        {"metadata": {"annotations": {LABEL: "0.500"}}},
        {"spec": {"containers": [{"securityContext": {"privileged": True}}], "hostPID": "yes"}},
    ],
)
def test_what_carries_no_label_is_allowed_whatever_is_in_it(found):
    decided = decide(found)
    assert (decided.allowed, decided.code, decided.patch) == (True, "not-labelled", [])


@pytest.mark.parametrize(
    ("found", "what"),
    [
        ({"metadata": LABELLED, "spec": []}, "Expected `object | null`, got `array` - at `spec`"),
        ({"metadata": LABELLED, "spec": NAMELESS}, "Object missing required field `name` - at `spec.cont"),
    ],
)
def test_a_labelled_object_of_wrong_types_is_denied(found, what):
    decided = decide(found)
    assert (decided.allowed, decided.code) == (False, "unreadable-object")
    assert decided.message.startswith(f"the labelled object cannot be read: {what}")
    assert decided.message.endswith("; fix that field")


@pytest.mark.parametrize(
    ("metadata", "what"),
    [
        ({"labels": {LABEL: 0.5}}, f"label {LABEL} is 0.5"),
        ({"labels": {LABEL: None}, "annotations": []}, f"label {LABEL} is null"),
        ({**LABELLED, "annotations": {"clearml-injector/gpus": 2}}, "annotation clearml-injector/gpus is 2"),
    ],
)
def test_a_label_or_annotation_without_quotes_is_named_with_its_value(metadata, what):
    message = decide({"metadata": metadata}).message
    assert message == f"{what}, which is not text: write the value in quotes"


@pytest.mark.parametrize("number", [b"1e400", b"-1e999", b"0.5", b"[[1e400]]"])
def test_a_labelled_object_with_a_number_that_cannot_be_is_denied(number):
    found = pod(containers=[container(limits={"cpu": "HERE"})])
    found["metadata"]["uid"] = "HERE"
    decided = Webhook().send(json.dumps(review_of(found)).encode().replace(b'"HERE"', number))
    assert (decided.allowed, decided.code) == (False, "unreadable-object")


@pytest.mark.parametrize("spec", [None, {}, {"containers": None}, {"containers": []}])
def test_a_labelled_pod_without_containers_is_denied(spec):
    decided = decide({"metadata": LABELLED, "spec": spec})
    assert decided.code == "unreadable-object"
    assert decided.message == f"a pod with the label {LABEL} needs spec.containers: add one"


@pytest.mark.parametrize("quantity", ["1e400", "NaN", "1_000", "\u0661", "1 ", "", 10**30, -(10**30)])
@pytest.mark.parametrize("resource", ["cpu", "memory"])
def test_a_quantity_that_cannot_be_read_denies_the_pod(quantity, resource):
    decided = decide(pod(containers=[container(limits={resource: quantity})]))
    assert decided.code == "unreadable-object"
    assert decided.message.startswith("resource requests of the pod: ")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b'{"request": null}',
        b"{",
        b"{" * 100_000,
        b'{"request":{"uid":"u","object":' + b"[" * 100_000,
        b'{"request":{"uid":"u","object":{"spec":{"containers":[{"args":["\\ud800"]}]}}}}',
        b'{"request":{"uid":"u","object":NaN}}',
        b"\xff\xfe\x00",
        b'{"request":{"uid":"\xff"}}',
    ],
)
def test_what_has_no_request_to_answer_is_unreadable(body):
    with pytest.raises(UnreadableReviewError) as error:
        decode(body)
    assert "\n" not in str(error.value)


def test_a_dry_run_gets_the_same_answer_and_leaves_no_trace():
    webhook = Webhook()
    dry = webhook.decide(pod(), dryRun=True)
    assert webhook.ledger.totals().used == 0
    assert "clearml-injector/reservation" not in dry.annotations
    wet = webhook.decide(pod())
    assert webhook.ledger.totals().used == 4
    assert dry.container() == wet.container()


def test_an_error_of_ours_denies_a_labelled_pod_without_a_word_of_it(monkeypatch):
    def broken(*_args, **_kwargs):
        raise KeyError("CANARY")

    monkeypatch.setattr(Ledger, "place", broken)
    decided = decide(pod())
    assert (decided.allowed, decided.code) == (False, "internal-error")
    assert decided.message == (f"internal error (KeyError) in review {UID}: try again or tell your admin")
    kind, _, place = decided.outcome.error.partition(" at ")
    assert (kind, place.partition(":")[0]) == ("KeyError", Path(__file__).name)
    assert decide(pod(fraction=None)).allowed
