"""What a change of a pod is worth telling."""

import asyncio
from datetime import UTC, datetime

import msgspec
import pytest

from controller.findings import Finding, findings, waiting_message
from controller.free_nodes import FreeNodesFinder
from controller.pod_events import event
from controller.pods_and_nodes import InjectedPod, SeenNode, SeenPod
from controller.state import State
from ledger.decoding import node_from_object
from ledger.facts import PodFact
from ledger.resource_names import ResourceNames
from tests.controller.objects import node

INJECTED = InjectedPod(uid="u", fraction="0.500", injected="default@1", slices="4", gpu_index="1")


def seen(injected=INJECTED, **fact):
    return SeenPod(PodFact(**{"namespace": "team", "name": "a", "gpus": ((1, 4),), **fact}), injected)


def changed(**fields):
    return msgspec.structs.replace(INJECTED, **fields)


def told(before, after):
    return [(finding.reason, finding.message) for finding in findings(before, after)]


def test_a_pod_as_it_should_be_is_no_news():
    assert told(None, seen()) == []
    assert told(None, seen(injected=None)) == []


def test_a_pod_that_the_scheduler_cannot_place_waits():
    waiting = changed(unschedulable=True)
    assert told(seen(), seen(waiting)) == [("WaitingForSlices", "")]
    assert told(seen(), seen(waiting, node="gpu-0")) == []


def test_another_node_than_the_preferred_one_is_told_when_the_pod_is_bound():
    preferring = changed(preferred_node="gpu-0")
    elsewhere = [("PlacedElsewhere", "bound to gpu-7; the fraction ledger had preferred gpu-0")]
    assert told(seen(preferring), seen(preferring, node="gpu-7")) == elsewhere
    assert told(seen(preferring), seen(preferring, node="gpu-0")) == []
    assert told(seen(preferring, node="gpu-7"), seen(preferring, node="gpu-7")) == []


@pytest.mark.parametrize(
    ("drifted", "message"),
    [
        ({"injected": None}, "clearml-injector/fraction 0.500 has no effect: the pod was never injected"),
        ({"slices": "2"}, "the annotation says 2 slices, the pod's limits say 4"),
        ({"gpu_index": "0"}, "the annotation says GPU 0, the pod's limits say 1"),
    ],
)
def test_drift_is_told(drifted, message):
    assert told(None, seen(changed(**drifted))) == [("FractionDrift", message)]


def test_a_pod_that_is_over_is_no_news():
    assert told(None, seen(changed(injected=None), is_over=True)) == []


def test_a_waiting_pod_learns_what_it_needs_and_what_is_free_where():
    state = State(lambda: 0.0)
    for name in ("gpu-0", "gpu-1", "gpu-2", "gpu-3"):
        state.set_node(SeenNode(node_from_object(node(name), ResourceNames()), name))
    state.set_pod(seen(None, name="holder", node="gpu-1", gpus=((1, 6),)))
    fact = seen(memory_values=("81920",)).fact
    assert message(state, fact) == (
        "needs slices 4 of nvidia.com/gpu-1 of 81920 MiB; free there: gpu-0 8, gpu-2 8, gpu-3 8 "
        "and 1 more nodes"
    )
    other = seen(memory_values=("40960",)).fact
    assert message(state, other) == (
        "needs slices 4 of nvidia.com/gpu-1 of 40960 MiB; no node has such GPUs now"
    )


def message(state, fact):
    return waiting_message(fact, asyncio.run(FreeNodesFinder(state).find(fact)), ResourceNames())


def test_an_event_is_named_by_pod_and_reason_so_that_it_is_told_once():
    finding = Finding("team", "a", "u", "FractionDrift", "text")
    made = event(finding, "text", lambda: datetime(2026, 11, 21, 10, tzinfo=UTC))
    assert made["metadata"] == {"name": "a.d3f4a18b624eed52", "namespace": "team"}
    about = {"apiVersion": "v1", "kind": "Pod", "namespace": "team", "name": "a", "uid": "u"}
    assert made["involvedObject"] == about
    assert (made["type"], made["firstTimestamp"]) == ("Warning", "2026-11-21T10:00:00Z")
