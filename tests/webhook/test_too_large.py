"""Of a review that is too large to be decoded, only the labels are read."""

import json
from functools import partial

import pytest

from tests.webhook.support import LABEL, Webhook, as_body, container, pod, policies, review_of
from tests.webhook.support.gpu_pods import JOBS
from webhook.admission import sizes
from webhook.admission_review import UnreadableReviewError, decode


def of_size(size, found):
    """A review of so many bytes: its object has a long argument."""
    review = json.dumps(review_of({**found, "spec": {"containers": [container(args=["@"])]}}))
    return review.replace("@", "x" * (size - len(review) + 1)).encode()


def with_parts(count):
    """A review with so many lists, maps and members."""
    review = json.dumps(review_of(pod(metadata={"managedFields": "@"})))
    missing = count - sizes._parts(review.encode())
    return review.replace('"@"', f"[{','.join(['0'] * 50_000 + ['[]'] * (missing - 1))}]").encode()


@pytest.mark.parametrize(
    ("make", "most", "found"),
    [
        (partial(of_size, found=pod()), sizes.MAX_BYTES, "524289 bytes, more than 524288"),
        (with_parts, sizes.MAX_PARTS, "40001 lists and fields, more than 40000"),
    ],
    ids=["bytes", "parts"],
)
def test_a_labelled_object_is_denied_beyond_a_size_and_told_what_to_shorten(make, most, found):
    webhook = Webhook(again=False)
    assert webhook.send(make(most)).code == "injected"
    denied = webhook.send(make(most + 1))
    assert denied.code == "pod-too-large"
    advice = "shorten its longest field, or pass long values in a ConfigMap"
    assert denied.message == f"the request has {found}: {advice}"


JOB = {"resource": JOBS}
KAI = {"metadata": {"annotations": {"gpu-fraction": "0.5"}}}
OTHER_QUEUE = {"metadata": {"labels": {"clearml-agent-queue-name": "ours"}}}


@pytest.mark.parametrize(
    ("found", "request_", "reason"),
    [
        (pod(fraction=None), {"namespace": "without-aliases"}, "not-labelled"),
        (KAI, {}, "pod-too-large"),
        (OTHER_QUEUE, {}, "not-labelled"),
        (pod(), {"operation": "UPDATE"}, "not-handled"),
        (pod(), {"subResource": "status"}, "not-handled"),
        (pod(), JOB, "pod-too-large"),
        (pod(fraction=None), JOB, "not-labelled"),
        ({"metadata": {"labels": {LABEL: 0.5}}}, {}, "pod-too-large"),
        ({"metadata": {"labels": [LABEL]}}, JOB, "not-labelled"),
    ],
    ids=["unlabelled", "alias", "queue", "update", "subresource", "job", "unlabelled job", "number", "list"],
)
def test_of_3_mib_the_labels_alone_decide(found, request_, reason):
    plain = "kind: Policy\nname: plain\nnamespaces: [without-aliases]\n"
    queues = "kind: Queues\nqueues: {ours: {policy: plain, namespaces: [team]}}\n"
    webhook = Webhook(policies("aliases: {kai: true}", plain=plain, queues=queues))
    filled = {**found, "spec": {"containers": [container(args=["x" * 3 * 2**20])]}}
    assert webhook.send(review_of(filled, **request_)).code == reason


def test_a_label_whose_key_is_written_with_escapes_is_one():
    body = of_size(sizes.MAX_BYTES + 1, pod()).replace(LABEL.encode(), rb"\u0063learml-injector\/fraction")
    assert Webhook().send(body).code == "pod-too-large"


def test_what_is_nested_too_deep_is_no_review():
    review = as_body(review_of(pod(fraction="0.500", deep="HERE")))
    with pytest.raises(UnreadableReviewError):
        decode(review.replace(b'"HERE"', b"[" * 100_000 + b"]" * 100_000))
