"""What is read of a large review before anything else says of its labels what the whole of it says."""

import json

import pytest

from tests.webhook.support import FIXTURES, LABEL, Webhook, as_body, container, pod, policies, review_of
from webhook.admission import sizes
from webhook.admission.aliases import is_surely_without_aliases
from webhook.admission.label import asked_of
from webhook.admission.pod import Pod
from webhook.admission_review import UnreadableReviewError, decode, decode_head

MEMORY_LABEL = "clearml-injector/gpu-memory"
ODD = {
    "a number": {"labels": {LABEL: 0.5}},
    "null": {"labels": {LABEL: None}},
    "the other label": {"labels": {MEMORY_LABEL: "4Gi"}},
    "the other label, a list": {"labels": {MEMORY_LABEL: []}},
    "no labels": {},
    "labels of null": {"labels": None},
    "labels that are a list": {"labels": [LABEL]},
    "labels that are a text": {"labels": LABEL},
    "an annotation": {"annotations": {LABEL: "0.500"}},
    "another label of a wrong type": {"labels": {LABEL: "0.500", "a": 1}},
}


def is_labelled(body):
    """What the decoder of small reviews says."""
    found = decode(body).object
    return asked_of(found.metadata) is not None if isinstance(found, Pod) else found is not None


def check(body):
    head, request = decode_head(body), decode(body)
    assert head.is_labelled == is_labelled(body)
    for field in ("uid", "api_version", "operation", "resource", "sub_resource", "namespace", "dry_run"):
        assert getattr(head.request, field) == getattr(request, field)
    assert head.request.body == body
    return head


@pytest.mark.parametrize(
    "name", sorted(path.name for path in (FIXTURES / "admission-reviews").iterdir() if "job" not in path.name)
)
def test_heads_of_real_reviews(name):
    check((FIXTURES / "admission-reviews" / name).read_bytes())


@pytest.mark.parametrize("metadata", ODD.values(), ids=ODD)
def test_heads_of_odd_reviews(metadata):
    check(as_body(review_of({"metadata": metadata, "spec": {}})))


def test_a_label_whose_key_is_written_with_escapes_is_one():
    body = as_body(review_of(pod())).replace(LABEL.encode(), rb"\u0063learml-injector\/fraction")
    assert check(body).is_labelled


@pytest.mark.parametrize("fraction", ["0.500", None])
def test_of_what_is_nested_too_deep_it_says_what_can_be_said(fraction):
    review = as_body(review_of(pod(fraction=fraction, deep="HERE")))
    check(review.replace(b'"HERE"', b"[" * 100_000 + b"]" * 100_000))


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"request": {}}', b'{"request": {"uid": 1}}'])
def test_what_is_no_review_is_none_here_either(body):
    for read in (decode, decode_head):
        with pytest.raises(UnreadableReviewError):
            read(body)


KAI = {"metadata": {"annotations": {"gpu-fraction": "0.5"}}}


@pytest.mark.parametrize(
    ("body", "is_sure"),
    [
        (as_body(review_of(pod())), True),
        (as_body(review_of(KAI)), False),
        (as_body(review_of(KAI)).replace(b"gpu", rb"\u0067pu"), False),
        (as_body(review_of(pod(args=["--gpu-fraction", "a gpu-memory", "é\n<"]))), True),
        (json.dumps({"nvidia.com/gpumem": "1"}).encode(), False),
        (json.dumps({"mig-profile": "1g.10gb"}).encode(), False),
        (json.dumps({"nvidia.com/mig-1g.10gb": "1"}).encode(), False),
        (json.dumps({"kai.scheduler/container.train.x": "1"}).encode(), False),
        (rb'{"nvidia.com\/gpumem-percentage": "1"}', False),
        (rb'{"args": ["a \u0026\u0026 b \u003e c"]}', True),
        (rb'{"gpu\u002Dfraction": "0.5"}', False),
    ],
)
def test_words_of_other_systems_are_found_however_json_writes_them(body, is_sure):
    assert is_surely_without_aliases(body) is is_sure


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
    ("allowed", "too_large", "found"),
    [
        (
            of_size(sizes.MAX_BYTES, pod()),
            of_size(sizes.MAX_BYTES + 1, pod()),
            "524289 bytes, more than 524288",
        ),
        (
            with_parts(sizes.MAX_PARTS),
            with_parts(sizes.MAX_PARTS + 1),
            "40001 lists and fields, more than 40000",
        ),
    ],
    ids=["bytes", "parts"],
)
def test_a_labelled_object_is_denied_beyond_a_size_and_told_what_to_shorten(allowed, too_large, found):
    webhook = Webhook()
    webhook.reviewer.answer(allowed)
    assert webhook.outcomes[-1].reason == "injected"
    webhook.reviewer.answer(too_large)
    assert webhook.outcomes[-1].reason == "pod-too-large"
    advice = "shorten its longest field, or pass long values in a ConfigMap"
    assert webhook.outcomes[-1].denial.message == f"the request has {found}: {advice}"


JOB = {"resource": {"group": "batch", "version": "v1", "resource": "jobs"}}


@pytest.mark.parametrize(
    ("found", "request_", "reason"),
    [
        (pod(fraction=None), {}, "not-labelled"),
        (KAI, {}, "pod-too-large"),
        (pod(), {"operation": "UPDATE"}, "not-handled"),
        (pod(), {"subResource": "status"}, "not-handled"),
        (pod(), JOB, "pod-too-large"),
        (pod(fraction=None), JOB, "not-labelled"),
    ],
    ids=["unlabelled", "alias", "update", "subresource", "job", "unlabelled job"],
)
def test_of_3_mib_the_head_alone_decides(found, request_, reason):
    webhook = Webhook(policies("aliases: {kai: true}"))
    size = 3 * 2**20
    filled = {**found, "spec": {"containers": [container(args=["x" * size])]}}
    webhook.reviewer.answer(as_body(review_of(filled, **request_)))
    assert webhook.outcomes[-1].reason == reason
