"""A review that nests too deep to be decoded is denied, unless it is surely no pod of ours."""

import pytest

from tests.webhook.support import as_body, pod, review_of
from tests.webhook.support.bounded_work import check
from webhook.admission.denial import Reason
from webhook.admission_review import UnreadableReviewError, decode


@pytest.mark.parametrize("fraction", ["0.500", None])
def test_a_review_nested_too_deep_is_denied_unless_it_is_surely_unlabelled(fraction):
    found = pod(fraction=fraction, spec="HERE")
    body = as_body(review_of(found)).replace(b'"HERE"', b"[" * 100_000 + b"]" * 100_000)
    outcome = check(body)
    assert outcome.reason is (Reason.NOT_LABELLED if fraction is None else Reason.UNREADABLE)


def test_a_label_in_escapes_is_not_overlooked_in_a_review_nested_too_deep():
    found = pod(fraction=None, labels={"KEY": "0.500"}, more="HERE")
    body = as_body(review_of(found)).replace(b"KEY", b"clearml\\u002dinjector/fraction")
    outcome = check(body.replace(b'"HERE"', b"[" * 100_000 + b"]" * 100_000))
    assert outcome.reason is Reason.UNREADABLE


@pytest.mark.parametrize(
    "head", [b'{"request":{"namespace":"a","object":', b'{"request":{"uid":"","object":', b""]
)
def test_what_names_no_uid_at_its_head_cannot_be_answered(head):
    with pytest.raises(UnreadableReviewError):
        decode(head + b"[" * 100_000 + b"]" * 100_000)
