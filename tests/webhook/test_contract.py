"""What the API server relies on: the reply's shape, its messages, and the closed list of reasons."""

import base64
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.webhook.support import FIXTURES, Webhook, fixture_review, pod, review_of
from webhook.admission.denial import ADMITTED, Denial, Reason

REASONS = Path(__file__).parent.parent.parent / "docs" / "reference" / "reasons.md"
REVIEWS = sorted(path.name.removesuffix(".json") for path in (FIXTURES / "admission-reviews").iterdir())


@pytest.mark.parametrize("name", REVIEWS)
def test_every_reply_is_what_the_api_server_takes(name):
    review = fixture_review(name)
    reply = Webhook().send(review).reply
    assert set(reply) == {"apiVersion", "kind", "response"}
    assert (reply["apiVersion"], reply["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response = reply["response"]
    assert response["uid"] == review["request"]["uid"]
    members = {"uid", "allowed", "auditAnnotations"}
    if not response["allowed"]:
        assert set(response) == {*members, "status"}
        status = response["status"]
        assert (status["code"], status["reason"], status["status"]) == (403, "Forbidden", "Failure")
        assert 0 < len(status["message"]) <= 200
        assert status["message"].isprintable()
    elif set(response) != members:
        assert set(response) == {*members, "patch", "patchType"}
        assert response["patchType"] == "JSONPatch"
        operations = json.loads(base64.b64decode(response["patch"], validate=True))
        assert {operation["op"] for operation in operations} in ({"add"}, {"add", "remove"}, {"remove"})


def test_the_version_of_the_review_is_echoed():
    review = review_of(pod()) | {"apiVersion": "admission.k8s.io/v1beta1"}
    assert Webhook().send(review).reply["apiVersion"] == "admission.k8s.io/v1beta1"


@given(st.text(max_size=500))
def test_a_message_is_one_printable_line_of_at_most_200_characters(text):
    message = Denial.of(Reason.LABEL, text).message
    assert len(message) <= 200
    assert message.isprintable()
    if text.isprintable() and len(text) <= 200:
        assert message == text


def test_the_documented_reasons_are_exactly_those_of_the_code():
    allowed, _, denied = REASONS.read_text().partition("## Denied")
    rows = re.compile(r"^\| `([a-z-]+)` \| (.+) \| (.+) \|$", re.MULTILINE)
    for text, reasons in ((allowed, ADMITTED), (denied, {*Reason} - {*ADMITTED})):
        assert sorted(code for code, *_ in rows.findall(text)) == sorted(each.value for each in reasons)
