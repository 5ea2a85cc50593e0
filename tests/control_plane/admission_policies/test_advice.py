"""Whatever the lock refuses, its last words are what to do: in its own messages, read off the chart."""

import re

import pytest

from testbed.chart import Helm
from tests.control_plane.admission_policies.support import VALUES, WEBHOOK

VERBS = "ask|delete|label|leave|name|remove|set|use|write"
ADVICE = re.compile(rf"[:;,] (or )?({VERBS})\b[^:;]*$")
MAX_MESSAGE = 200
PARTS = {
    "agent-own-node": 1,
    "agent-own-slices": 2,
    "bindings": 3,
    "claimed-shares": 1,
    "claims": 1,
    "controller-writes": 8,
    "device-annotations": 1,
    "ephemeral-containers": 4,
    "injected": 16,
    "joined-claims": 1,
    "priority-class": 1,
    "unchanged": 8,
    "unlabelled": 1,
    "unlabelled-claims": 2,
    "unserved": 1,
    "workloads": 1,
}
"""Policies of the lock, and how many rules each has."""


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
    assert {name: len(rules) for name, rules in validations.items()} == PARTS
    for rule in (rule for rules in validations.values() for rule in rules):
        message = rule["message"].strip()
        assert ADVICE.search(message), message
        assert len(message) <= MAX_MESSAGE, message
        if "messageExpression" in rule:
            assert ADVICE.search(literals(rule["messageExpression"])), rule["messageExpression"]
