"""Whatever a pod of 3 MiB is made of: one clear answer of less than 1 MiB, after a bounded amount of work."""

import base64
import json
import sys

import pytest

from bench.oversized import SIZE, shapes
from tests.webhook.support import as_body, default_policies, pod, review_of
from tests.webhook.support.many_policies import Roomy
from webhook.admission import sizes
from webhook.admission.denial import Reason
from webhook.envelope import UnreadableReviewError, decode
from webhook.patch_cache.cache import PatchCache
from webhook.review import Reviewer
from webhook.rules import Rules

pytestmark = pytest.mark.slow

MAX_LINES = 200_000
"""Lines of Python that a review may run, whatever the size of its pod."""
AT_THE_BOUNDS = 60_000
"""Bytes of pods in which most bounds are just kept, so that the rules walk as much as they ever do."""
SHAPES = {shape.name: shape for shape in shapes()}


class Lines:
    """Counts the lines of Python that run while it is entered, in every module."""

    def __enter__(self):
        self.count = 0
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_):
        sys.settrace(self._before)

    def _trace(self, _frame, _event, _value):
        self.count += 1
        return self._trace


def check(body, reviews):
    """Send a body so often: from the third time on, its answer comes from the patch cache if any does."""
    outcomes = []
    policies = default_policies()
    placer = Roomy((3, 81920, "node", ("81920",)))
    reviewer = Reviewer(
        lambda: policies, PatchCache(Rules()), placer, lambda _request, made, _seconds: outcomes.append(made)
    )
    for _ in range(reviews):
        with Lines() as lines:
            answer = reviewer.answer(body)
        assert lines.count <= MAX_LINES
        assert outcomes[-1].error is None
        check_answer(answer)
    return outcomes


def check_answer(answer):
    """An answer takes little room, and is one clear line or a short patch."""
    assert len(answer) < 2**20
    response = json.loads(answer)["response"]
    if response["allowed"]:
        assert len(json.loads(base64.b64decode(response.get("patch", "W10=")))) <= sizes.MAX_OPERATIONS
    else:
        assert 0 < len(response["status"]["message"]) <= 200
        assert response["status"]["message"].isprintable()


@pytest.mark.parametrize("name", SHAPES)
def test_a_pod_of_3_mib_gets_one_short_answer_after_a_bounded_amount_of_work(name):
    check(SHAPES[name].make(SIZE), reviews=1)


@pytest.mark.parametrize("name", SHAPES)
def test_so_does_a_pod_that_just_keeps_the_bounds_whether_its_form_is_known_or_not(name):
    check(SHAPES[name].make(AT_THE_BOUNDS), reviews=3)


@pytest.mark.parametrize("fraction", ["0.500", None])
def test_a_review_nested_too_deep_is_denied_unless_it_is_surely_unlabelled(fraction):
    found = pod(fraction=fraction, spec="HERE")
    body = as_body(review_of(found)).replace(b'"HERE"', b"[" * 100_000 + b"]" * 100_000)
    (outcome,) = check(body, reviews=1)
    assert outcome.reason is (Reason.NOT_LABELLED if fraction is None else Reason.UNREADABLE)


def test_a_label_in_escapes_is_not_overlooked_in_a_review_nested_too_deep():
    found = pod(fraction=None, labels={"KEY": "0.500"}, more="HERE")
    body = as_body(review_of(found)).replace(b"KEY", b"clearml\\u002dinjector/fraction")
    (outcome,) = check(body.replace(b'"HERE"', b"[" * 100_000 + b"]" * 100_000), reviews=1)
    assert outcome.reason is Reason.UNREADABLE


@pytest.mark.parametrize(
    "head", [b'{"request":{"namespace":"a","object":', b'{"request":{"uid":"","object":', b""]
)
def test_what_names_no_uid_at_its_head_cannot_be_answered(head):
    with pytest.raises(UnreadableReviewError):
        decode(head + b"[" * 100_000 + b"]" * 100_000)
