"""What is kept, logged or repeated of a review is what Kubernetes allows, whoever wrote it."""

import json

import pytest

from ledger.ledger import Ledger
from tests.webhook.support import (
    LABEL,
    Webhook,
    as_body,
    container,
    decide,
    fixture_ledger,
    pod,
    review_of,
)
from webhook.admission_review import UnreadableReviewError, decode

LONG = "x" * 2**20
JOB = {"group": "batch", "version": "v1", "resource": "jobs"}


@pytest.mark.parametrize("uid", [LONG, "u" * 254, "two words", "a\nb", "a/b", "\u0661"])
@pytest.mark.parametrize("fraction", ["0.500", None])
def test_a_review_whose_uid_cannot_be_one_is_unreadable(uid, fraction):
    with pytest.raises(UnreadableReviewError) as error:
        decode(as_body(review_of(pod(fraction=fraction), uid=uid)))
    assert len(str(error.value)) < 200


def test_a_reply_never_repeats_a_version_of_any_length():
    with pytest.raises(UnreadableReviewError):
        decode(as_body(review_of(pod()) | {"apiVersion": LONG}))


@pytest.mark.parametrize("namespace", [LONG, "a" * 64, "Team", "a/b", "-a", "two words", "a\nb"])
@pytest.mark.parametrize("found", [pod(), {"metadata": {"labels": {LABEL: 0.5}}}])
def test_a_labelled_object_of_a_namespace_that_cannot_be_is_denied_in_one_line(namespace, found):
    webhook = Webhook()
    decided = webhook.decide(found, namespace=namespace)
    assert (decided.allowed, decided.code) == (False, "unreadable-object")
    assert len(decided.message) <= 200
    assert "\n" not in decided.message
    assert decode(as_body(review_of(found, namespace=namespace))).namespace == "unreadable"


def test_a_labelled_job_of_a_namespace_that_cannot_be_is_denied():
    job = {"metadata": {"labels": {LABEL: "0.500"}}, "spec": None}
    assert decide(job, resource=JOB, namespace="A B").code == "unreadable-object"


@pytest.mark.parametrize("namespace", [LONG, "Team"])
def test_an_unlabelled_pod_of_any_namespace_is_allowed(namespace):
    decided = decide(pod(fraction=None), namespace=namespace)
    assert (decided.allowed, decided.code) == (True, "not-labelled")


@pytest.mark.parametrize("dry_run", [True, False])
def test_what_stays_of_many_large_pods_is_bounded_in_bytes(dry_run):
    webhook = Webhook(ledger=fixture_ledger())
    for number in range(30):
        found = pod(
            containers=[container()],
            nodeSelector={f"example.com/{number}-{each}": "v" * 60 for each in range(90)},
        )
        webhook.decide(found, uid=f"uid-{number}", dryRun=dry_run)
    assert kept_bytes(webhook.ledger) <= 2**24


def kept_bytes(ledger: Ledger) -> int:
    remembered = [selection.request.constraints.size() for selection in ledger._finder._known.values()]
    return sum(remembered) + len(json.dumps(list(ledger._reservations._by_name)))
