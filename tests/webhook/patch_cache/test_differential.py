"""Both lanes are really taken; and what a known form does not look at is said here."""

import copy

import pytest

from tests.webhook.support import Webhook, container, pod, review_of
from webhook.decision import ask_by_rules, ask_for_known


@pytest.fixture
def lanes(monkeypatch):
    """The lanes taken, in their order."""
    taken = []

    def noting(name, function):
        return lambda *found: taken.append(name) or function(*found)

    monkeypatch.setattr("webhook.review.ask_for_known", noting("form", ask_for_known))
    monkeypatch.setattr("webhook.review.ask_by_rules", noting("rules", ask_by_rules))
    return taken


def test_a_pod_of_a_known_form_is_decided_by_its_form_and_once_more_by_the_rules(lanes):
    assert Webhook().decide(pod()).code == "injected"
    assert lanes == ["form", "rules"]


def test_a_pod_of_a_form_that_was_never_met_is_decided_by_the_rules_twice(lanes):
    assert Webhook().send(review_of(pod()), learns=False).code == "injected"
    assert lanes == ["rules", "rules"]


def test_a_form_is_known_from_the_second_time_on(lanes):
    webhook = Webhook()
    for uid in "abcd":
        webhook.send(review_of(pod(), uid=uid), learns=False)
    assert lanes == ["rules", "rules", "form", "rules", "form", "rules", "form", "rules"]


def test_a_pod_without_a_form_is_decided_by_the_rules_alone(lanes):
    assert not Webhook().learn(review_of(pod(nodeName="gpu-1")))
    assert Webhook().decide(pod(volumes=[{"name": "a", "hostPath": {"path": "/data"}}])).code == "injected"
    assert lanes == ["rules", "rules"]


FULL = pod(
    metadata={"annotations": {"a": "b"}},
    containers=[container(env=[{"name": "A", "value": "b"}])],
    initContainers=[container("init")],
)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("metadata", "name"), 5),
        (("metadata", "labels", "a"), 5),
        (("metadata", "annotations", "a"), None),
        (("spec", "containers", 0, "image"), 5),
        (("spec", "containers", 0, "env", 0, "value"), 5),
        (("spec", "containers", 0, "env", 0, "valueFrom"), "B"),
        (("spec", "initContainers", 0, "image"), []),
    ],
)
def test_a_wrong_type_where_only_rules_look_is_denied_by_them_and_else_gets_the_same_share(path, value):
    found = copy.deepcopy(FULL)
    inner = found
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    webhook = Webhook()
    assert webhook.send(review_of(found), learns=False).code == "unreadable-object"
    assert webhook.decide(found, dryRun=True).patch == webhook.decide(FULL, dryRun=True).patch
