"""Which quotas a pod counts against."""

import pytest

from ledger.placement_request import Quota
from policies.model.effective import QuotaRule
from tests.policies.support import policy_set

QUOTAS = """
kind: Policy
name: team
namespaces: [team-a]
quotas:
  namespaces: {team-a: {slices: 16, maxPods: 4}}
  queues: {big_q: {slices: 8}, other: {}}
  queueMaxPods: true
  whenDegraded: admit
"""
QUOTA_QUEUES = """
kind: Queues
queues:
  big_q: {queueSettings: {maxPods: 3}}
  own: {namespaces: [team-a], quota: {slices: 99}, queueSettings: {maxPods: 2}}
"""


def quotas(queue):
    return policy_set(a=QUOTAS, q=QUOTA_QUEUES).resolve("team-a", queue, None).quotas


def test_quotas_are_those_of_the_pods_namespace_and_queue():
    namespace = QuotaRule(Quota("namespace", "team-a", slices=16, max_pods=4), "admit")
    assert quotas(None) == (namespace,)
    assert quotas("other") == (namespace,)
    big = Quota("queue", "big-q", 8, 3, ("big-q",), ("team-a",))
    assert quotas("Big.Q") == (namespace, QuotaRule(big, "admit"))
    own = Quota("queue", "own", 99, 2, ("own",), ("team-a",))
    assert quotas("own") == (namespace, QuotaRule(own, "admit"))


def test_a_queue_with_an_id_is_held_to_its_quota_under_name_and_id():
    queues = "kind: Queues\nqueues: {My_Q: {id: 1f2e, quota: {slices: 4}}}\n"
    for labels in ((None, "1f2e"), ("my.q", None), ("MY-Q", "1f2e"), ("other", "1f2e"), ("my_q", "other")):
        rules = policy_set(q=queues).resolve("x", *labels).quotas
        assert [rule.quota for rule in rules] == [Quota("queue", "my-q", 4, keys=("my-q", "#1f2e"))]


def test_a_pod_that_names_two_queues_is_held_to_both():
    queues = "kind: Queues\nqueues: {a: {id: 1, quota: {slices: 4}}, b: {id: 2, quota: {slices: 8}}}\n"
    queues = queues.replace("id: 1", 'id: "1"').replace("id: 2", 'id: "2"')
    rules = policy_set(q=queues).resolve("x", "a", "2").quotas
    assert [(rule.quota.name, rule.quota.keys) for rule in rules] == [("b", ("b", "#2")), ("a", ("a", "#1"))]


SERVED = """
kind: Policy
name: default
quotas: {queues: {free: {slices: 8}, own: {slices: 8}}}
---
kind: Policy
name: blue
namespaces: [blue-1, blue-2]
quotas: {queues: {free: {slices: 4}}}
---
kind: Queues
queues:
  own: {namespaces: [red], quota: {slices: 2}}
  wide: {quota: {slices: 2}}
  free: {namespaces: [blue-2, green]}
"""


@pytest.mark.parametrize(
    ("namespace", "queue", "namespaces", "others"),
    [
        ("red", "own", ("red",), ()),
        ("x", "own", None, ("blue-1", "blue-2", "red")),
        ("x", "wide", None, ()),
        ("blue-1", "wide", None, ()),
        ("blue-2", "free", ("blue-2",), ()),
        ("blue-1", "free", ("blue-1",), ()),
        ("green", "free", ("green",), ()),
        ("x", "free", None, ("blue-1", "blue-2", "green")),
    ],
)
def test_a_quota_of_a_queue_counts_where_pods_are_held_to_it(namespace, queue, namespaces, others):
    (rule,) = policy_set(default=SERVED).resolve(namespace, queue, None).quotas
    assert (rule.quota.namespaces, rule.quota.other_namespaces) == (namespaces, others)


def test_the_charts_max_pods_count_only_when_the_policy_says_so():
    policies = policy_set(a=QUOTAS.replace("queueMaxPods: true", "queueMaxPods: false"), q=QUOTA_QUEUES)
    quota = policies.resolve("team-a", "big_q", None).quotas[1].quota
    assert (quota.name, quota.slices, quota.max_pods) == ("big-q", 8, None)


@pytest.mark.parametrize(
    "files",
    [
        {"a": QUOTAS, "q": QUOTA_QUEUES},
        {"default": SERVED},
        {"q": "kind: Queues\nqueues: {My_Q: {id: 1f2e, quota: {slices: 4}}}\n"},
        {},
    ],
    ids=["entries and limits", "served elsewhere", "by id", "none"],
)
def test_all_quotas_are_those_that_some_pod_is_held_to(files):
    found = policy_set(**files)
    namespaces = {"x", "team-a", "team-b", "red", "green", *found.by_namespace}
    labels = {None, *found.queue_by_label, "other", "free", "own", "big-q", "big_q", "small"}
    ids = {None, *found.queue_by_id}
    held = {
        rule.quota
        for namespace in namespaces
        for label in labels
        for identity in ids
        for rule in found.resolve(namespace, label, identity).quotas
    }
    assert set(found.quotas()) == held
