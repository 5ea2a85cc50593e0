"""Who has how many slices as metrics: a bounded number of series, whatever pods say."""

from prometheus_client import CollectorRegistry

from controller.publish.usage_metrics import MAX_SHOWN, OTHERS, UsageCollector, shown
from policies.loading.loader import parse_policies
from tests.ledger.cluster import gpu_node, holder, ledger_of

POLICIES = """
kind: Policy
name: default
quotas:
  namespaces: {red: {slices: 16, memoryMiB: 100000}, idle: {slices: 0}}
  queues: {lone: {slices: 3}}
---
kind: Queues
queues:
  My_Queue: {id: id-1, namespaces: [red], quota: {slices: 8, memoryMiB: 40960}}
  Free: {}
"""


def values(ledger, text=POLICIES):
    registry = CollectorRegistry()
    policies = parse_policies({"p.yaml": text.encode()})
    registry.register(UsageCollector(ledger, policies.quotas, policies.queues))
    return {
        (sample.name.removeprefix("fraction_injector_"), *sample.labels.values()): sample.value
        for metric in registry.collect()
        for sample in metric.samples
    }


def test_namespaces_and_queues_are_shown_with_their_quotas():
    pods = (
        holder("a", "n", (0, 3), namespace="red", queues=("my-queue", "#id-1")),
        holder("b", "n", (0, 2), namespace="blue", queues=("my-queue",)),
        holder("c", "n", (1, 1), namespace="blue", queues=("lone",)),
        holder("d", "n", (1, 1), namespace="blue", queues=("whatever",)),
    )
    assert values(ledger_of(gpu_node("n"), holders=pods)) == {
        ("namespace_slices_allocated", "red"): 3,
        ("namespace_slices_allocated", "idle"): 0,
        ("namespace_slices_allocated", "blue"): 4,
        ("namespace_slices_quota", "red"): 16,
        ("namespace_slices_quota", "idle"): 0,
        ("queue_slices_allocated", "my-queue"): 3,
        ("queue_slices_allocated", "free"): 0,
        ("queue_slices_allocated", "lone"): 1,
        ("queue_slices_quota", "my-queue"): 8,
        ("queue_slices_quota", "lone"): 3,
        ("namespace_mib_allocated", "red"): 30720,
        ("namespace_mib_allocated", "idle"): 0,
        ("namespace_mib_allocated", "blue"): 40960,
        ("namespace_mib_quota", "red"): 100000,
        ("queue_mib_allocated", "my-queue"): 30720,
        ("queue_mib_allocated", "free"): 0,
        ("queue_mib_allocated", "lone"): 10240,
        ("queue_mib_quota", "my-queue"): 40960,
        ("namespace_pods_waiting", "red"): 0,
        ("namespace_pods_waiting", "idle"): 0,
        ("queue_pods_waiting", "my-queue"): 0,
        ("queue_pods_waiting", "lone"): 0,
    }


def test_more_namespaces_than_are_shown_are_summed_up():
    used = {f"n{number}": number for number in range(1, 1001)}
    found = shown(used, ["n1", "empty"])
    assert len(found) == MAX_SHOWN + 1
    assert (found["n1"], found["empty"], found["n1000"]) == (1, 0, 1000)
    assert sum(found.values()) == sum(used.values())
    assert OTHERS not in shown({"a": 1}, [])
