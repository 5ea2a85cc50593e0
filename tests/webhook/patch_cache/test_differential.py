"""A pod is really decided by the cache and once more by the rules; and what the cache does not look at."""

import copy

import pytest

from tests.webhook.support import Webhook, container, pod, review_of
from webhook.patch_cache.cache import Entry
from webhook.rules import Rules


@pytest.fixture
def deciders(monkeypatch):
    """Who decided, in turn."""
    taken = []

    def noting(name, method):
        return lambda *found: taken.append(name) or method(*found)

    monkeypatch.setattr(Entry, "render", noting("cache", Entry.render))
    monkeypatch.setattr(Rules, "begin", noting("rules", Rules.begin))
    return taken


def test_a_pod_with_a_known_key_is_decided_by_the_cache_and_once_more_by_the_rules(deciders):
    assert Webhook(again=False).decide(pod()).code == "injected"
    assert deciders == ["cache", "rules"]


FULL = pod(
    metadata={"annotations": {"a": "b"}},
    containers=[container(env=[{"name": "A", "value": "b"}])],
    initContainers=[container("init")],
)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("metadata", "name"), 5),
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
