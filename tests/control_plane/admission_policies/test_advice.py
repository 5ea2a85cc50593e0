"""Whatever the lock refuses, its last words are what to do: in its own messages, read off the chart."""

import re

import pytest

from testbed.chart import Helm
from tests.control_plane.admission_policies.support import VALUES, WEBHOOK

VERBS = "ask|delete|label|leave|name|remove|set|use|write"
ADVICE = re.compile(rf"[:;,] (or )?({VERBS})\b[^:;]*$")
MAX_MESSAGE = 200


def literals(expression):
    """The texts in a CEL expression, in their order, without what stands between them."""
    return "".join(re.findall(r"'([^']*)'", expression))


@pytest.fixture
def validations(control_plane, tmp_path):
    rendered = Helm(control_plane, tmp_path).rendered({**VALUES, "webhook": WEBHOOK})
    return {
        obj["metadata"]["name"].removeprefix("fraction-injector-"): obj["spec"]["validations"]
        for obj in rendered
        if obj["kind"] == "ValidatingAdmissionPolicy"
    }


def test_every_refusal_ends_with_what_to_do(validations):
    assert len(validations) > 10
    for rule in (rule for rules in validations.values() for rule in rules):
        message = rule["message"].strip()
        assert ADVICE.search(message), message
        assert len(message) <= MAX_MESSAGE, message
        if "messageExpression" in rule:
            assert ADVICE.search(literals(rule["messageExpression"])), rule["messageExpression"]
